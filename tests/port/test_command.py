"""`jumar port` as a process: what it prints, where, and its exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-c", "from jumar.cli import main; main()", "port"]


def jumar_port(*arguments: object, timeout_s: float = 180) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "train.py").write_text("import torch\nx.cuda()\n")
    return folder


def test_a_port_exits_with_0_and_says_where_the_report_is(source: Path, tmp_path: Path) -> None:
    done = jumar_port(source, "-o", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ported, not run yet (2 edits in 1 file,")
    assert str(tmp_path / "out/jumar-report/report.html") in done.stdout


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"main.py": "loss.backward()", "lib.py": "loss.backward()"}, "python main.py"),
        (
            {"tools/train_net.py": "loss.backward()", "net.py": "def f(): pass"},
            "python tools/train_net.py",
        ),
        ({"go.py": "Trainer(model)\nif __name__ == '__main__': go()", "a.py": ""}, "python go.py"),
        ({"train.py": "if __name__ == '__main__': engine.go()"}, "python train.py"),
        (
            {"nets/a b/main.py": "sys.path.append('../..')\nloss.backward()"},
            "sh -c 'cd '\"'\"'nets/a b'\"'\"' && python main.py'",
        ),
        ({"net.py": "", "tests/test_net.py": "loss.backward()"}, "python -m pytest tests"),
        ({"net.py": ""}, "python YOUR_TRAINING_SCRIPT.py"),
    ],
)
def test_a_port_that_nobody_ran_names_the_command_that_would_prove_it(
    tmp_path: Path, files: dict[str, str], words: str
) -> None:
    for name, text in files.items():
        path = tmp_path / "a source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import torch\n{text}\n")
    done = jumar_port(
        tmp_path / "a source", "-o", tmp_path / "out", "--json", "--npu-only", "--ignore", "JP9"
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"]["code"] == "ported"
    assert document["how_to_prove"] == (
        f"jumar port '{tmp_path}/a source' -o {tmp_path}/out --npu-only --ignore JP9 "
        f"--prove -- {words}"
    )


def test_json_is_the_only_thing_on_stdout(source: Path, tmp_path: Path) -> None:
    done = jumar_port(source, "-o", tmp_path / "out", "--json", "--npu-only", "--torch", "2.13")
    document = json.loads(done.stdout)
    assert document["options"] == {"mode": "npu-only", "torch": "2.13", "chip": "a2"}
    assert json.loads((tmp_path / "out/jumar-report/report.json").read_text()) == document


def test_diff_prints_a_patch_and_writes_nothing(source: Path, tmp_path: Path) -> None:
    done = jumar_port(source, "--diff")
    assert done.returncode == 0
    assert "\n-x.cuda()\n" in done.stdout
    assert "\n+x.to(ACCELERATOR)\n" in done.stdout
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["src", "train.py"]


def test_check_exits_with_1_where_work_is_left(source: Path) -> None:
    assert jumar_port(source, "--check").returncode == 0
    (source / "k.py").write_text("import torch\ntorch.nn.DataParallel(m)\n")
    assert jumar_port(source, "--check").returncode == 1


def test_reports_go_where_they_are_asked(source: Path, tmp_path: Path) -> None:
    jumar_port(source, "--in-place", "--report", tmp_path / "rep")
    assert (tmp_path / "rep/report.html").is_file()
    assert "x.to(ACCELERATOR)" in (source / "train.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope", "-o", "out"], "no such folder: nope"),
        ([".", "-o", "out", "--torch", "two"], "is not a torch version"),
        ([".", "-o", "out", "--torch", "1.4"], "no NPU plug-in"),
        ([".", "-o", "out", "--chip", "h100"], "unknown chip 'h100'"),
        (["."], "no target for the port"),
        ([".", "--in-place", "-o", "out"], "cannot be combined"),
        ([".", "--in-place", "--check"], "cannot be combined"),
    ],
)
def test_bad_input_exits_with_2_and_one_clear_line(arguments: list[str], words: str) -> None:
    done = jumar_port(*arguments)
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[0]
    assert "Traceback" not in done.stderr


def test_an_interrupt_leaves_nothing_half_written(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    body = "import torch\n" + "x = torch.zeros(3).cuda()\n" * 4000
    for number in range(60):
        (source / f"m{number}.py").write_text(body)
    process = subprocess.Popen(
        [*PROGRAM, str(source), "-o", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    time.sleep(1.5)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=180)
    assert process.returncode != 0
    assert [p.name for p in tmp_path.iterdir()] == ["src"]


def test_a_code_that_no_rule_has_is_refused(source: Path) -> None:
    for option in ("--select", "--ignore"):
        done = jumar_port(source, "--diff", option, "JX1")
        assert (done.returncode, done.stdout) == (2, "")
        assert "no rule starts with 'JX1'" in done.stderr
    assert jumar_port(source, "--diff", "--select", "JP7").returncode == 0
