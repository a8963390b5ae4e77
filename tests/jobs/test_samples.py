"""Samples of use: small files however long a job runs, whole whatever was cut."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.engine.local.use import process_use
from jumar.jobs import samples
from jumar.jobs.samples import SampleFile, read_usage
from jumar.launch.jobdir.claims import Claim, take
from jumar.launch.jobdir.files import JobDir
from jumar.launch.processes.process import identify, myself

CPU = (("cpu_cores", None),)
BOTH = (*CPU, ("use_pct", "0"))


def test_a_long_run_is_thinned_and_keeps_its_span(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "MOST_ROWS", 64)
    file = SampleFile(tmp_path / "usage" / "job.jsonl")
    for second in range(1000):
        file.add(CPU, [float(second), 2.0])
    found = read_usage(tmp_path / "usage" / "job.jsonl")
    assert len(found.times) <= 64
    assert found.times == tuple(sorted(found.times))
    assert found.times[0] < 200
    assert found.times[-1] == 999
    assert set(found.curves[0].y) == {2.0}


def test_another_server_and_other_cards_go_on_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "job.jsonl"
    SampleFile(path).add(CPU, [1.0, 0.5])
    with path.open("a") as file:
        file.write("[2.0, 0.")
        file.write("\n")
    SampleFile(path).add(BOTH, [3.0, 1.5, 90.0])
    found = read_usage(path)
    assert found.times == (1.0, 3.0)
    assert {curve.name: curve.y for curve in found.curves} == {
        "cpu_cores": (0.5, 1.5),
        "use_pct": (None, 90.0),
    }
    assert read_usage(tmp_path / "none.jsonl").times == ()
    path.write_bytes(b"\xff\x00[")
    assert read_usage(path).curves == ()


def test_what_the_processes_of_an_attempt_use_is_seen(tmp_path: Path) -> None:
    size = 64 << 20
    program = f"x = b'1' * {size}; print(len(x), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        identity = identify(child.pid)
        assert identity is not None
        directory = JobDir(str(tmp_path), 1)
        os.makedirs(os.path.dirname(directory.claim))
        handle = take(directory, Claim(myself(), identity, "here", None))
        assert handle is not None
        os.close(handle)
        use = process_use({"job": directory, "gone": JobDir(str(tmp_path / "no"), 1)})
        child.stdin.close()
        child.wait(timeout=60)
    assert use.keys() == {"job"}
    assert use["job"].memory_bytes > size
    assert use["job"].cpu_s > 0
