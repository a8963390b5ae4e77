"""Logs: whole, in parts, by their last lines; without ever holding them in memory."""

import os
import socket
from io import FileIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.conftest import Running

from jumar.errors import RangeUnsatisfiable
from jumar.server.api.open_log import OpenLog
from jumar.server.edge.requests import Part, parse_range

GIB = 1 << 30


def write_sparse(path: Path, size: int, ending: bytes) -> None:
    with path.open("wb") as file:
        file.truncate(size - len(ending))
        file.seek(0, os.SEEK_END)
        file.write(ending)


@given(
    lines=st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=30),
    ends=st.booleans(),
    count=st.integers(0, 35),
)
@settings(max_examples=200, deadline=None)
def test_the_tail_is_what_the_last_lines_are(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ends: bool, count: int
) -> None:
    data = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    path = tmp_path_factory.mktemp("log") / "rank0.log"
    path.write_bytes(data)
    log = OpenLog(FileIO(path))
    try:
        offset = log.tail_offset(count, len(data))
    finally:
        log.close()
    # `split` and not `splitlines`, which knows more ends of lines than a log has.
    whole = data.split(b"\n")
    closed = [line + b"\n" for line in whole[:-1]] + ([whole[-1]] if whole[-1] else [])
    assert data[offset:] == b"".join(closed[-count:] if count else [])


def test_a_tail_over_many_blocks(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    lines = [b"%06d %s\n" % (number, b"x" * (number % 300)) for number in range(5000)]
    path.write_bytes(b"".join(lines))
    log = OpenLog(FileIO(path))
    offset = log.tail_offset(3000, path.stat().st_size)
    log.close()
    assert path.read_bytes()[offset:] == b"".join(lines[2000:])


def test_a_tail_without_any_newline_is_bounded_and_begins_with_a_character(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    path.write_text("é" * 100_000, "utf-8")
    log = OpenLog(FileIO(path))
    offset = log.tail_offset(5, 200_000, most_bytes=1001)
    log.close()
    assert 200_000 - offset == 1000


@pytest.mark.parametrize(
    ("header", "part"),
    [
        ("bytes=0-9", Part(0, 10)),
        ("bytes=90-", Part(90, 100)),
        ("bytes=-5", Part(95, 100)),
        ("bytes=-500", Part(0, 100)),
        ("bytes=95-1000", Part(95, 100)),
        ("bytes=9-3", None),
        ("bytes=-", None),
        ("bytes=0-1,5-6", None),
        ("lines=0-1", None),
        ("bytes=a-b", None),
        (None, None),
    ],
)
def test_ranges(header: str | None, part: Part | None) -> None:
    assert parse_range(header, 100) == part


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=1000-2000", "bytes=-0"])
def test_a_range_behind_the_end_is_refused(header: str) -> None:
    with pytest.raises(RangeUnsatisfiable):
        parse_range(header, 100)


def test_a_log_is_served_whole_in_parts_and_from_its_last_lines(running: Running) -> None:
    job = running.running_job()
    running.log_path(job.id).write_bytes(b"one\ntwo\nthree \xff\n")
    path = f"/jobs/{job.id}/logs/0/0"
    whole = running.api("GET", path)
    assert whole.body == b"one\ntwo\nthree \xff\n"
    assert whole.headers["X-Log-Size"] == "16"
    part = running.api("GET", path, headers={"Range": "bytes=4-6"})
    assert (part.status, part.body) == (206, b"two")
    assert part.headers["Content-Range"] == "bytes 4-6/16"
    assert part.headers["X-Log-Offset"] == "4"
    tail = running.api("GET", f"{path}?tail=2")
    assert (tail.body, tail.headers["X-Log-Offset"]) == (b"two\nthree \xff\n", "4")
    behind = running.api("GET", path, headers={"Range": "bytes=99-"})
    assert (behind.status, behind.headers["Content-Range"]) == (416, "bytes */16")
    assert running.api("GET", f"/jobs/{job.id}/logs").json == [{"node": 0, "rank": 0, "size": 16}]
    missing = running.api("GET", f"/jobs/{job.id}/logs/0/7")
    assert missing.status == 404
    assert running.api("GET", f"/jobs/{job.id}/logs/0/-1").status == 422


def test_a_log_that_the_job_replaced_by_something_else_is_not_read(running: Running) -> None:
    job = running.running_job()
    log = running.log_path(job.id)
    secret = running.home / "client.json"
    secret.write_text("secret")
    log.symlink_to(secret)
    assert running.api("GET", f"/jobs/{job.id}/logs/0/0").status == 404
    log.unlink()
    os.mkfifo(log)
    assert running.api("GET", f"/jobs/{job.id}/logs/0/0").status == 404


def test_a_log_of_five_gigabytes_opens_at_its_end_at_once(running: Running) -> None:
    job = running.running_job()
    ending = b"".join(b"line %d\n" % number for number in range(1000))
    write_sparse(running.log_path(job.id), 5 * GIB, ending)
    tail = running.api("GET", f"/jobs/{job.id}/logs/0/0?tail=20")
    assert tail.body == b"".join(b"line %d\n" % number for number in range(980, 1000))
    page = running.ask("GET", f"/jobs/{job.id}")
    assert "line 999" in page.text
    assert len(page.body) < 200_000


def test_who_stops_reading_a_large_log_does_not_hold_the_server(running: Running) -> None:
    job = running.running_job()
    write_sparse(running.log_path(job.id), 1 * GIB, b"end\n")
    with running.open(f"/api/v1/jobs/{job.id}/logs/0/0") as answer:
        assert len(answer.read(1000)) == 1000
        assert running.api("GET", "/me").status == 200
    with socket.create_connection(("127.0.0.1", int(running.url.rsplit(":", 1)[1]))) as gone:
        request = f"GET /api/v1/jobs/{job.id}/logs/0/0 HTTP/1.1\r\nHost: localhost\r\n"
        gone.sendall(f"{request}Authorization: Bearer {running.token('ann')}\r\n\r\n".encode())
        gone.recv(100)
    assert running.api("GET", "/me").status == 200
