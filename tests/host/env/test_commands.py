"""`jumar env plan`, `jumar env check` and `jumar doctor` as a person runs them."""

import json
import subprocess
import sys

import pytest
from tests.host.conftest import FakeMachine
from tests.host.env.conftest import LIMIT_S, Bench


def test_plan_prints_what_to_install_and_who_says_so(bench: Bench):
    done = bench.run("env", "plan", "--torch", "2.7", "--cann", "8.5.0")
    assert done.returncode == 0
    assert "fits: torch 2.7.1 with torch_npu 2.7.1.post2 on CANN 8.5.0" in done.stdout
    assert "torchvision==0.22.1     PyTorch release table" in done.stdout


def test_plan_as_json(bench: Bench):
    told = json.loads(bench.run("env", "plan", "--mindspore", "2.9", "--json").stdout)
    assert (told["fit"], told["version"], told["cann"]) == ("fits", "2.9.0", "9.0.0")
    assert told["packages"][0]["requirement"] == "mindspore==2.9.0"


def test_an_unknown_plan_lists_what_the_tables_have(bench: Bench):
    done = bench.run("env", "plan", "--torch", "2.7", "--cann", "8.5.7")
    assert done.returncode == 1
    assert "unknown: CANN 8.5.7 is not listed in jumar's tables" in done.stdout
    assert "torch 2.7.1, torch_npu 2.7.1.post2   8.5.0" in done.stdout


def test_check_says_in_words_what_clashes(bench: Bench):
    machine = FakeMachine(bench.folder / "root")
    machine.add_python(torch="2.8.0", torch_npu="2.12.0", torchvision="0.22.1")
    done = bench.run("env", "check", "--python", str(machine.python))
    assert done.returncode == 1
    assert "clashes: torch_npu 2.12.0 requires torch 2.12.0, but torch is 2.8.0" in done.stdout
    assert "fix: pip install torchvision==0.23.0" in done.stdout
    assert "unknown: torch_npu 2.12.0 requires CANN 9.1.0; no CANN was found" in done.stdout


def test_check_without_frameworks_says_so(bench: Bench):
    machine = FakeMachine(bench.folder / "root")
    machine.add_python()
    done = bench.run("env", "check", "--python", str(machine.python))
    assert done.returncode == 0
    assert "torch, torch_npu, torchvision and mindspore are not installed" in done.stdout


@pytest.mark.parametrize("command", [("doctor",), ("env", "check")])
def test_a_python_that_is_not_there_is_bad_input(bench: Bench, command: tuple[str, ...]):
    done = bench.run(*command, "--python", "/nowhere/python")
    assert done.returncode == 2
    assert "error: no Python at '/nowhere/python'" in done.stderr
    assert "hint:" in done.stderr


def test_doctor_prints_groups_and_counts(bench: Bench):
    done = bench.run("doctor", "--only", "python", "--only", "memory", "--python", sys.executable)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "Python:"
    assert lines[1].startswith("    ok  python: Python 3.")
    assert lines[-1].endswith("0 failing, 0 could not be checked")


def test_doctor_as_json_with_a_failure(bench: Bench):
    machine = FakeMachine(bench.folder / "root")
    site = machine.add_python(torch="2.9.0")
    (site / "torch.py").write_text("raise RuntimeError('broken on purpose')\n")
    done = bench.run("doctor", "--json", "--only", "torch-import", "--python", str(machine.python))
    assert done.returncode == 1
    (result,) = json.loads(done.stdout)["results"]
    assert result["verdict"] == "fail"
    assert "broken on purpose" in result["seen"]
    assert result["fix"]


def test_a_check_that_does_not_exist_is_bad_input(bench: Bench):
    done = bench.run("doctor", "--only", "unknown-check")
    assert done.returncode == 2
    assert "there is no check 'unknown-check'" in done.stderr


def test_the_doctors_own_process_never_imports_torch(bench: Bench):
    machine = FakeMachine(bench.folder / "root")
    site = machine.add_python(torch="2.9.0")
    (site / "torch.py").write_text("import pathlib; pathlib.Path(__file__ + '.imported').touch()\n")
    program = (
        "import sys\nfrom pathlib import Path\nfrom jumar.host.doctor import examine\n"
        "from jumar.host.patient import Patient\n"
        "assert examine(Patient.this(Path('/tmp'), sys.argv[1])).results\n"
        "assert 'torch' not in sys.modules\n"
    )
    command = [sys.executable, "-c", program, str(machine.python)]
    subprocess.run(command, check=True, timeout=LIMIT_S)
    assert (site / "torch.py.imported").exists()
