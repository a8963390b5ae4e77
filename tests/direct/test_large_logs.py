"""Logs of jobs that were handed to Slurm, of 2 TB: shown from their beginning or end at once, here and over SSH."""

import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from tests.direct.test_far import stub_ssh

from jumar.client import LogChunk
from jumar.direct.client import DirectClient
from jumar.direct.far_client import FarClient
from jumar.errors import LogNotFound

JOB = "a123456789"
SIZE = 1 << 41
LAST = "".join(f"line {number}\n" for number in range(1000))

FAR = """
import json, sys
from jumar.launch.slurm.far import Far
print("jumar-far=have\\n" + json.dumps({{"jumar-far": {{
    "home": {home!r}, "python": "python3", "program": "x", "user": "ann"}}}}), flush=True)
far = Far({home!r})
for line in sys.stdin:
    print(json.dumps({{"answer": far.answer(json.loads(line))}}), flush=True)
"""


def large_log(home: Path) -> Path:
    """The log of a job of this home."""
    path = home / "jobs" / JOB / "logs/node0/rank0.log"
    path.parent.mkdir(parents=True)
    (home / "jobs" / JOB / "job.json").write_text("{}")
    with path.open("wb") as file:
        file.write(b"first\n")
        file.truncate(SIZE)
        file.seek(0, os.SEEK_END)
        file.write(f"\n{LAST}".encode())
    return path


@pytest.fixture(params=["here", "far"])
def client(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DirectClient]:
    if request.param == "here":
        large_log(tmp_path / "slurm")
        yield DirectClient(tmp_path)
        return
    large_log(tmp_path / "far")
    monkeypatch.setenv("PATH", stub_ssh(tmp_path, FAR.format(home=str(tmp_path / "far"))))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    with FarClient(tmp_path / "near", "ann@login") as made:
        yield made


def text(blocks: Iterator[bytes]) -> str:
    return b"".join(blocks).decode()


def test_the_last_lines_come_without_what_is_before_them(client: DirectClient) -> None:
    assert text(client.logs(JOB, tail=2)) == "line 998\nline 999\n"
    assert text(client.logs(JOB, tail=1000)) == LAST
    assert text(client.logs(JOB, tail=0)) == ""
    first = next(event for event in client.follow(JOB, tail=3) if isinstance(event, LogChunk))
    assert first.text == "line 997\nline 998\nline 999\n"
    assert first.end == SIZE + 1 + len(LAST)


def test_a_tail_of_more_than_there_are_lines_is_bounded(client: DirectClient) -> None:
    told = text(client.logs(JOB, tail=10_000))
    assert told.endswith(LAST)
    assert len(told) <= 16 << 20


def test_the_whole_log_comes_from_its_beginning_at_once(client: DirectClient) -> None:
    assert b"".join(islice(client.logs(JOB), 1)).startswith(b"first\n\0")


def test_a_log_that_is_not_there_is_told(client: DirectClient) -> None:
    for tail in (None, 5):
        with pytest.raises(LogNotFound, match="rank 1"):
            next(client.logs(JOB, tail=tail, rank=1))


def test_what_is_written_while_a_log_is_read_is_left_for_later(tmp_path: Path) -> None:
    """Or a job that writes faster than its log is taken would be read for ever."""
    path = large_log(tmp_path / "slurm")
    path.write_bytes(b"a\n")
    blocks = DirectClient(tmp_path).logs(JOB)
    with path.open("ab") as file:
        assert next(blocks) == b"a\n"
        file.write(b"b\n")
        file.flush()
    assert text(blocks) == ""
