"""`jumar env create`: real environments from tiny wheels, and nothing left when it goes wrong."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.host.env.conftest import LIMIT_S, Bench, make_wheel
from tests.waiting import wait_for

SLOW_UV = 'if [ "$1" = venv ]; then for last; do :; done; mkdir -p "$last/bin"; exit 0; fi\nexec sleep 600'


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_uv_makes_what_was_planned_and_it_imports(bench: Bench):
    done = bench.create("--with", "uv", "--at", "made", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["check"]["packages"] == {
        "torch": "2.14.0",
        "torch-npu": "2.14.0",
        "torchvision": "0.29.0",
    }
    outcomes = {one["package"]: one["outcome"] for one in told["check"]["imports"]}
    assert outcomes == {"torch": "works", "torch-npu": "unverified", "torchvision": "works"}
    assert bench.left_behind == ["made"]
    program = "import torch_npu, pyyaml, sympy"
    subprocess.run([bench.folder / "made/bin/python", "-c", program], check=True, timeout=180)


def test_venv_and_pip_make_the_same(bench: Bench):
    done = bench.create("--with", "venv", "--at", "made")
    assert done.returncode == 0, done.stderr
    assert "fits: torch 2.14.0 and torch_npu 2.14.0" in done.stdout
    assert "unverified: torch-npu 2.14.0 imports, but torch sees no NPU" in done.stdout
    assert f"source {bench.folder}/made/bin/activate" in done.stdout
    assert bench.left_behind == ["made"]


def test_conda_is_asked_for_python_and_pip_for_the_rest(bench: Bench):
    bench.add_tool("conda", "exit 1")
    done = bench.create("--with", "conda", "--at", "made", "--dry-run")
    made = str(bench.folder / "made")
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert f"conda create --yes --prefix {made} python={minor} pip" in done.stdout
    assert f"{made}/bin/python -m pip install" in done.stdout
    assert bench.left_behind == []


def test_a_dry_run_does_nothing_and_hides_passwords(bench: Bench):
    secret = "https://ann:hunter2@mirror.lan/simple"
    done = bench.create("--with", "uv", "--dry-run", "--extra-index-url", secret)
    assert done.returncode == 0
    assert "uv pip install --python" in done.stdout
    assert "'https://***@mirror.lan/simple'" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
    assert bench.left_behind == []


def test_a_package_that_is_nowhere_takes_everything_away_again(bench: Bench):
    next(bench.wheels.glob("sympy-*")).unlink()
    done = bench.create("--with", "uv", "--at", "made")
    assert done.returncode == 2
    assert "error: could not install" in done.stderr
    assert "sympy" in done.stderr
    assert "hint:" in done.stderr
    assert bench.left_behind == []


def test_what_does_not_import_is_reported_and_kept(bench: Bench):
    make_wheel(bench.wheels, "torchvision", "0.29.0", "raise ImportError('operator nms is gone')\n")
    done = bench.create("--with", "uv", "--at", "made")
    assert done.returncode == 1
    assert "broken: import torchvision: ImportError: operator nms is gone" in done.stdout
    assert bench.left_behind == ["made"]


def test_a_plugin_that_needs_cann_is_unverified_where_there_is_none(bench: Bench):
    program = "raise ImportError('libhccl.so: cannot open shared object file')\n"
    make_wheel(bench.wheels, "torch_npu", "2.14.0", program)
    done = bench.create("--with", "uv", "--at", "made")
    assert done.returncode == 0
    assert (
        "unverified: this machine has no CANN; the import fails with ImportError: libhccl"
        in done.stdout
    )


def test_a_folder_that_is_there_is_left_alone(bench: Bench):
    keep = bench.folder / "made/keep"
    keep.parent.mkdir()
    keep.touch()
    done = bench.create("--with", "uv", "--at", "made")
    assert done.returncode == 2
    assert "already exists" in done.stderr
    assert keep.exists()
    assert bench.left_behind == ["made"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_takes_everything_away_again(bench: Bench, number: signal.Signals):
    bench.add_tool("uv", f"echo $$ > {bench.folder}/bin/pid-$1; {SLOW_UV}")
    pid_file = bench.folder / "bin/pid-pip"
    with bench.start("env", "create", *bench.wishes, "--with", "uv", "--at", "made") as process:
        wait_for(lambda: pid_file.exists() and pid_file.read_text() != "")
        process.send_signal(number)
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert bench.left_behind == []
    wait_for(lambda: not is_running(int(pid_file.read_text())))


def test_after_a_kill_the_next_run_starts_afresh(bench: Bench):
    bench.add_tool("uv", f"echo $$ > {bench.folder}/bin/pid-$1; {SLOW_UV}")
    pid_file = bench.folder / "bin/pid-pip"
    arguments = ("env", "create", *bench.wishes, "--with", "uv", "--at", "made")
    with bench.start(*arguments) as process:
        wait_for(lambda: pid_file.exists() and pid_file.read_text() != "")
        second = bench.run(*arguments)
        assert "another jumar is creating" in second.stderr
        assert second.returncode == 2
        process.kill()
    wait_for(lambda: not is_running(int(pid_file.read_text())))
    assert bench.left_behind == [".made.unfinished", "made"]
    (bench.folder / "bin/uv").unlink()
    done = bench.create("--with", "uv", "--at", "made")
    assert done.returncode == 0, done.stderr
    assert bench.left_behind == ["made"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--torch", "2.7", "--cann", "8.1.RC1"), "no table pairs torch 2.7 with CANN 8.1.RC1"),
        (("--torch", "2.13"), "no table lists its CANN"),
        (("--torch", "2.x"), "is not a version number"),
        (("--mindspore", "2.3.1"), "no table lists the Python versions of mindspore 2.3.1"),
        (("--torch", "2.14", "--with", "conda"), "conda is not on PATH"),
        (("--torch", "2.14", "--python", "3.9"), "requires Python"),
        (
            ("--torch", "1.11", "--cann", "7.0.RC1", "--python", "3.7", "--with", "venv"),
            "needs Python 3.7",
        ),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_is_done(
    bench: Bench, arguments: tuple[str, ...], words: str
):
    done = bench.run("env", "create", "--at", "made", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert bench.left_behind == []


def test_unknown_is_allowed_when_asked_for(bench: Bench):
    done = bench.run("env", "create", "--torch", "2.13", "--allow-unknown", "--dry-run")
    assert done.returncode == 0
    assert "torch_npu==2.13.0" in done.stdout


def test_a_place_that_cannot_be_written(bench: Bench):
    (bench.folder / "bin").touch()
    done = bench.create("--with", "uv", "--at", "bin/made")
    assert done.returncode == 2
    assert "cannot create" in done.stderr
