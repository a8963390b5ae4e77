"""Commands in jobs as the API offers them: who may send to one, what is refused, and how it ends. The
command itself is the other end of a socket here."""

import socket
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from http.client import HTTPResponse

import pytest
from tests.server.conftest import LIMIT_S, Running
from tests.waiting import wait_for

from jumar.launch.processes import frames
from jumar.launch.processes.frames import Reader, frame, json_frame
from jumar.server.api import beside
from jumar.server.edge import sessions


@pytest.fixture
def ends(shared: Running, monkeypatch: pytest.MonkeyPatch) -> Generator[list[socket.socket]]:
    """The far ends of the commands that were started."""
    made: list[socket.socket] = []

    def start_beside(attempt: object) -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.settimeout(LIMIT_S)
        made.append(theirs)
        return ours

    monkeypatch.setattr(shared.engine, "start_beside", start_beside, raising=False)
    yield made
    for end in made:
        end.close()


@contextmanager
def command(shared: Running, job: str, user: str = "ann") -> Generator[HTTPResponse]:
    with closing(shared.connect()) as connection:
        headers = {
            "Authorization": f"Bearer {shared.token(user)}",
            "Content-Type": "application/json",
        }
        connection.request("POST", f"/api/v1/jobs/{job}/exec", b'{"command": ["cat"]}', headers)
        yield connection.getresponse()


def said(answer: HTTPResponse) -> list[tuple[bytes, bytes]]:
    """All until the end, without signs of life."""
    reader = Reader()
    return [one for one in reader.feed(answer.read()) if one[0] != frames.ALIVE]


def heard(end: socket.socket, count: int) -> list[tuple[bytes, bytes]]:
    reader, found = Reader(), list[tuple[bytes, bytes]]()
    while len(found) < count:
        data = end.recv(65536)
        assert data
        found += reader.feed(data)
    return found


def test_frames_go_both_ways_and_only_from_whom_they_may(
    shared: Running, ends: list[socket.socket]
) -> None:
    job = shared.running_job("ann").id
    with command(shared, job) as answer:
        assert answer.status == 200
        path = f"/jobs/{job}/exec/{answer.headers['X-Session']}"
        ((kind, wanted),) = heard(ends[0], 1)
        assert kind == frames.REQUEST
        assert frames.values_of(wanted)["command"] == ["cat"]
        typed = frame(frames.INPUT, b'"\\u0000"') + frame(frames.INPUT_END)
        assert shared.api("POST", path, body=typed).status == 204
        assert heard(ends[0], 2) == [(frames.INPUT, b'"\\u0000"'), (frames.INPUT_END, b"")]
        # Not even an administrator types into somebody's shell.
        for user, status in (("bob", 403), ("root", 404), ("eve", 403)):
            assert shared.api("POST", path, user=user, body=typed).status == status
        other = shared.running_job("ann").id
        assert shared.api("POST", path.replace(job, other), body=typed).status == 404
        for junk in (b"{}", frame(frames.EXIT), typed[:-1], frame(b"i", b"x" * 70_000), b"\0" * 9):
            assert shared.api("POST", path, body=junk).status == 422
        ends[0].sendall(frame(frames.OUTPUT, b"out")[:4])
        ends[0].sendall(frame(frames.OUTPUT, b"out")[4:] + json_frame(frames.EXIT, {"code": 0}))
        ends[0].shutdown(socket.SHUT_WR)
        assert said(answer)[:2] == [(b"o", b"out"), (b"q", b'{"code": 0}')]
    wait_for(lambda: shared.api("POST", path, body=typed).status == 404)


def test_the_command_hears_that_its_client_has_gone(
    shared: Running, ends: list[socket.socket]
) -> None:
    job = shared.running_job("ann").id
    with command(shared, job):
        heard(ends[0], 1)
    assert ends[0].recv(10) == b""


def test_who_may_no_longer_do_it_is_cut_off_and_so_is_who_is_silent(
    shared: Running, ends: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = shared.running_job("bob").id
    with command(shared, job, "bob") as answer:
        heard(ends[0], 1)
        shared.site.accounts.set_role("bob", "pending")
        ((kind, content),) = said(answer)
        shared.site.accounts.set_role("bob", "member")
    assert kind == frames.REFUSED
    assert b"no longer" in content
    assert ends[0].recv(10) == b""
    monkeypatch.setattr(beside, "SILENCE_LIMIT_S", 0.0)
    with command(shared, job, "bob") as answer:
        assert said(answer) == []


def test_one_user_has_a_bounded_number_of_them(
    shared: Running, ends: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_PER_USER", 1)
    job = shared.running_job("ann").id
    with command(shared, job) as first:
        assert first.status == 200
        # It counts from the first byte of its answer on.
        assert first.read1(1)
        with command(shared, job) as second:
            assert second.status == 429
    give_up_at = time.monotonic() + LIMIT_S
    while True:
        with command(shared, job) as third:
            if third.status == 200:
                return
        assert time.monotonic() < give_up_at
