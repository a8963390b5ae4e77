"""`jumar selftest` with real processes, in its small size: what it finds, and what it leaves."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jumar.selftest.machine import Machine
from jumar.selftest.plan import Fault
from jumar.selftest.run import Audience, Size, run

SMALL = ("--jobs", "40", "--users", "4", "--clients", "6", "--faults", "6", "--seed", "1")
LIMIT_S = 500


def environment(tmp_path: Path) -> dict[str, str]:
    # Its folders are made here, and the home of the user is one that must stay as it is.
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text("sim_cards = 3\n")
    return {
        **os.environ,
        "TMPDIR": str(temporary),
        "JUMAR_HOME": str(home),
        "JUMAR_PORT": "1",
        "JUMAR_CPU_SLOTS": "1",
    }


def left_of(tmp_path: Path) -> list[str]:
    """Processes that have anything to do with this test, and what it left in its folders."""
    found = [path.name for path in (tmp_path / "tmp").iterdir()]
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["config.toml"]
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{tmp_path}/tmp/jumar-selftest".encode() in entry.read_bytes():
                found.append(f"process {entry.parent.name}")
        except OSError:
            continue
    return found


def test_forty_jobs_are_run_once_whatever_is_done_to_the_platform(
    tmp_path: Path, jumar_program: str
) -> None:
    done = subprocess.run(
        [jumar_program, "selftest", *SMALL, "--minutes", "7", "--json"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    broken = {one["name"]: one["broken"] for one in report["promises"] if one["broken"]}
    assert (broken, done.returncode) == ({}, 0), done.stderr
    assert sum(report["states"].values()) == 40
    faults = {one["fault"] for one in report["faults"]}
    assert faults >= {Fault.SERVER, Fault.DESCRIPTORS, Fault.WARM, Fault.FREEZE}
    if os.environ.get("CI"):
        assert report["notes"] == []
    assert left_of(tmp_path) == []


def test_ctrl_c_leaves_nothing(tmp_path: Path, jumar_program: str) -> None:
    with subprocess.Popen(
        [jumar_program, "selftest", "--jobs", "30", "--faults", "8", "--minutes", "7"],
        env=environment(tmp_path),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        assert started.stderr is not None
        # A line a fault: after the first one everything runs.
        while not (line := started.stderr.readline()).startswith("1/"):
            assert line
        started.send_signal(signal.SIGINT)
        said, complaints = started.communicate(timeout=LIMIT_S)
    assert (started.returncode, said) == (130, "")
    assert "Traceback" not in complaints
    assert left_of(tmp_path) == []


def test_a_job_that_runs_twice_is_found_and_its_folder_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    honest = Machine.program.fget
    assert honest is not None

    def twice(machine: Machine) -> list[str]:
        script = "import subprocess, sys; [subprocess.call(sys.argv[1:]) for _ in range(2)]"
        return [sys.executable, "-I", "-S", "-c", script, *honest(machine)]

    monkeypatch.setattr(Machine, "program", property(twice))
    silent = Audience(lambda words: None, lambda progress: None)
    report = run(Size(jobs=1, users=1, clients=1, faults=0, minutes=7, seed=0), silent)
    assert not report.passed
    assert "once" in {promise.name for promise in report.promises if not promise.held}
    assert report.folder is not None
    kept = Path(report.folder)
    assert (kept / "ledger").is_file()
    assert (kept / "home" / "server.log").is_file()
    assert not os.path.ismount(kept / "home")


def test_what_cannot_be_is_refused(jumar_program: str) -> None:
    done = subprocess.run(
        [jumar_program, "selftest", "--jobs", "0"], capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 2
    assert "--jobs" in done.stderr
