"""Code written for CUDA, unedited, in a process where cuda means the CPU."""

import json
import subprocess
import sys
from pathlib import Path

from tests.inject.conftest import SCRIPTS, plain_environment

from jumar.inject.starting import Limits, cuda_on_cpu, noted


def run(
    folder: Path, *words: str, steps: int = 0
) -> tuple["subprocess.CompletedProcess[str]", list[dict[str, object]]]:
    notes = folder / "notes"
    notes.mkdir()
    environ = noted(
        plain_environment(), notes=notes, source=folder, root=folder, limits=Limits(steps, 200)
    )
    done = subprocess.run(
        [sys.executable, *words],
        env=cuda_on_cpu(environ, devices=2),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    lines = [line for path in notes.iterdir() for line in path.read_text().splitlines()]
    return done, [json.loads(line) for line in lines]


def test_what_scripts_call_works_on_the_cpu(tmp_path: Path) -> None:
    done, _ = run(tmp_path, str(SCRIPTS / "cuda_surface.py"))
    assert done.stdout == "all is well\n", done.stderr


def test_scripts_of_torch_jit_compile_and_compute(tmp_path: Path) -> None:
    done, _ = run(tmp_path, str(SCRIPTS / "cuda_scripted.py"))
    assert done.stdout == "all is well\n", done.stderr


def test_notes_name_the_line_and_the_run_ends_after_its_steps_even_if_it_would_go_on(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "model = torch.nn.Linear(2, 1).cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "while True:\n"
        "    try:\n"
        "        model(torch.ones(1, 2).cuda()).sum().backward()\n"
        "        optimizer.step()\n"
        "    except BaseException as error:\n"
        "        print(type(error).__name__)\n"
    )
    done, notes = run(tmp_path, "train.py", steps=2)
    assert (done.returncode, done.stdout) == (0, "SystemExit\n"), done.stderr
    assert [note["where"] for note in notes if note["kind"] == "loss"] == ["train.py:6"] * 3
    names = [note["what"] for note in notes if note["kind"] == "parameter"][:2]
    assert names == ["weight", "bias"]


def test_a_script_that_updates_its_parameters_itself_takes_steps(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "model = torch.nn.Linear(2, 1).cuda()\n"
        "while True:\n"
        "    model.zero_grad()\n"
        "    model(torch.ones(1, 2).cuda()).sum().backward()\n"
        "    for p in model.parameters():\n"
        "        p.data.add_(p.grad, alpha=-0.5)\n"
    )
    done, notes = run(tmp_path, "train.py", steps=3)
    assert done.returncode == 0, done.stderr
    kinds = [note["kind"] for note in notes if note["kind"] != "output"]
    assert kinds == [
        "loss",
        *["parameter", "parameter", "step", "loss"] * 2,
        "parameter",
        "parameter",
        "step",
    ]
    digests = {note["digest"] for note in notes if note["what"] == "bias"}
    assert len(digests) == 3


def test_a_process_without_torch_is_left_as_it_is(tmp_path: Path) -> None:
    done, notes = run(tmp_path, "-c", "import sys; print('torch' in sys.modules)")
    assert (done.stdout, notes) == ("False\n", [])


def test_norms_over_two_ranks_are_one_norm_over_all_rows(tmp_path: Path) -> None:
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done, _ = run(tmp_path, *words, str(SCRIPTS / "sync_norm.py"), "cuda")
    assert done.returncode == 0, done.stderr
