"""Strangers who only connect, and clients who only begin to send: nobody else notices."""

import hashlib
import json
import os
import resource
import selectors
import socket
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.server.conftest import LIMIT_S, Running, serving
from tests.tars import tar_of
from tests.waiting import wait_for

from jumar.server.edge import requests, uploads
from jumar.server.process import connections
from jumar.spec.states import JobState

STRANGERS = 1100
TAR = tar_of(train="print()")
DIGEST = hashlib.sha256(TAR).hexdigest()
Jumar = Callable[..., str]


class Strangers(threading.Thread):
    """Holds connections that ask for nothing, and opens closed ones again."""

    def __init__(self, url: str, count: int) -> None:
        super().__init__()
        self._place = (urlsplit(url).hostname, urlsplit(url).port)
        self._count = count
        self._over = threading.Event()
        self._selector = selectors.DefaultSelector()
        self.are_there = threading.Event()

    def run(self) -> None:
        tried = 0
        while not self._over.is_set():
            held = len(self._selector.get_map())
            for _ in range(min(100, self._count - held)):
                self._open(tried)
                tried += 1
            if tried >= self._count:
                self.are_there.set()
            for key, _ in self._selector.select(0.05):
                self._selector.unregister(key.fileobj)
                key.data.close()
        for key in list(self._selector.get_map().values()):
            key.data.close()
        self._selector.close()

    def _open(self, number: int) -> None:
        wire = socket.socket()
        wire.settimeout(LIMIT_S)
        try:
            wire.connect(self._place)
            # Some send nothing, some half a request.
            wire.sendall(
                [b"", b"GET / HT", b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\n"][number % 3]
            )
        except OSError:
            wire.close()
            return
        self._selector.register(wire, selectors.EVENT_READ, wire)

    def end(self) -> None:
        self._over.set()
        self.join()


@contextmanager
def strangers(url: str, count: int = STRANGERS) -> Generator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 300:
        if hard != resource.RLIM_INFINITY and hard < count + 300:
            pytest.skip("this machine does not let a test open that many connections")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + 300, hard))
    holder = Strangers(url, count)
    holder.start()
    try:
        assert holder.are_there.wait(LIMIT_S)
        yield
    finally:
        holder.end()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def limited_server(
    request: pytest.FixtureRequest, jumar_program: str, tmp_path: Path
) -> Generator[Jumar]:
    """`jumar` with a server that was started under a soft limit of 1,024 descriptors."""
    hidden = ("JUMAR_SERVER", "JUMAR_TOKEN", "JUMAR_DATABASE_URL", "JUMAR_PORT")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"JUMAR_HOME": str(tmp_path / "home"), "JUMAR_CPU_SLOTS": "4"}

    def call(*arguments: str, limits: str = "") -> str:
        done = subprocess.run(
            ["sh", "-c", f'{limits} exec "$@"', "sh", jumar_program, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    call("up", "--detach", limits=f"ulimit -Sn 1024; ulimit -Hn {request.param};")
    yield call
    call("down")


def _show(jumar: Jumar, job: str) -> dict[str, object]:
    return json.loads(jumar("show", job, "--json"))


@pytest.mark.parametrize("limited_server", [4096, 1024], indirect=True)
def test_a_thousand_strangers_hold_up_nobody_and_no_job(
    limited_server: Jumar, tmp_path: Path
) -> None:
    jumar = limited_server
    long = jumar("run", "--", "sleep", "600").strip()
    wait_for(lambda: _show(jumar, long)["state"] == "running")
    url = json.loads((tmp_path / "home" / "client.json").read_text())["url"]
    with strangers(url):
        short = jumar("run", "--", "true").strip()
        wait_for(lambda: _show(jumar, short)["state"] == "succeeded")
        other = jumar("run", "--", "sleep", "600").strip()
        jumar("stop", other)
        wait_for(lambda: _show(jumar, other)["state"] == "stopped")
        assert long in jumar("jobs", "--all")
        seen = _show(jumar, long)
        assert (seen["state"], len(list(seen["attempts"]))) == ("running", 1)  # pyright: ignore[reportArgumentType, reportUnknownArgumentType] - a list of JSON
    jumar("stop", long)
    wait_for(lambda: _show(jumar, long)["state"] == "stopped")


@pytest.mark.parametrize("limited_server", [4096], indirect=True)
def test_the_server_may_open_more_files_and_its_jobs_as_many_as_before(
    limited_server: Jumar, tmp_path: Path
) -> None:
    pid = int((tmp_path / "home" / "server.pid").read_text())
    assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (4096, 4096)
    shown = limited_server("run", "--follow", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn")
    assert shown.split() == ["1024", "4096"]


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Running]:
    """A server with room for eight connections."""
    monkeypatch.setattr("jumar.server.process.serving.room_for_connections", lambda: 8)
    with serving(tmp_path) as running:
        yield running


def answers(running: Running) -> bool:
    """Whether a question is answered; a client that is turned away asks again."""
    with suppress(ConnectionError):
        return running.api("GET", "/me").status == 200
    return False


def test_those_who_ask_for_nothing_go_and_a_follower_stays(small: Running) -> None:
    job = small.running_job()
    path = f"/api/v1/jobs/{job.id}/logs/0/0/stream"
    with small.open(path) as stream, strangers(small.url, 40):
        stream.readline()
        for _ in range(20):
            wait_for(lambda: answers(small))
        small.finish(job.id)
        assert b"event: end" in stream.read()


def test_followers_may_take_all_the_room_and_the_next_is_turned_away(small: Running) -> None:
    job = small.running_job()
    with ExitStack() as opened:
        for _ in range(8):
            stream = opened.enter_context(small.open(f"/api/v1/jobs/{job.id}/logs/0/0/stream"))
            stream.readline()
        with pytest.raises(ConnectionError):
            small.api("GET", "/me")
    small.finish(job.id)
    wait_for(lambda: answers(small))


def test_a_head_is_not_kept_in_any_size(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_LIMIT_S", 4 * LIMIT_S)
    place = urlsplit(running.url)
    with socket.create_connection((place.hostname, place.port), LIMIT_S) as wire:
        endless = b"GET /api/v1/server HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"x" * (
            128 << 10
        )
        with suppress(ConnectionResetError):
            wire.sendall(endless)
            assert wire.recv(1) == b""
    headers = {"X-Large": "x" * (64 << 10)}
    answer = running.ask("GET", "/api/v1/server", user=None, headers=headers)
    assert (answer.status, answer.json["error"]["code"]) == (431, "head-too-large")


@pytest.mark.parametrize("sent", [b"", b"GET /api/v1/server HTTP/1.1\r\nHost:", b"\r\n"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_head_that_does_not_come_is_not_waited_for(
    running: Running, monkeypatch: pytest.MonkeyPatch, sent: bytes, is_first: bool
) -> None:
    place = urlsplit(running.url)
    with socket.create_connection((place.hostname, place.port), LIMIT_S) as wire:
        if not is_first:
            wire.sendall(b"GET /api/v1/server HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = wire.recv(65536)
            # Head and body may come one after the other.
            while not answer.endswith(b"}") and (more := wire.recv(65536)):
                answer += more
            assert answer.startswith(b"HTTP/1.1 200")
            # uvicorn itself ends a connection that is silent between two requests.
            sent = sent or b"\r"
        monkeypatch.setattr(connections, "HEAD_LIMIT_S", 0.0)
        wire.sendall(sent)
        with suppress(ConnectionResetError):
            assert wire.recv(65536) == b""


def _begin_upload(running: Running, user: str, stack: ExitStack) -> socket.socket:
    place = urlsplit(running.url)
    wire = stack.enter_context(socket.create_connection((place.hostname, place.port), LIMIT_S))
    wire.sendall(
        f"PUT /api/v1/code/{'a' * 64} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n"
        f"Authorization: Bearer {running.token(user)}\r\n\r\nonly this".encode()
    )
    return wire


def test_silent_uploads_hold_up_their_own_user_only(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "SILENCE_LIMIT_S", 4 * LIMIT_S)
    monkeypatch.setattr(uploads, "PATIENCE_S", 4 * LIMIT_S)
    folder = running.home / "code"
    with ExitStack() as stack, selectors.DefaultSelector() as answered:
        for _ in range(12):
            wire = _begin_upload(running, "bob", stack)
            answered.register(wire, selectors.EVENT_READ)
        wait_for(lambda: folder.exists() and len(list(folder.iterdir())) == uploads.MOST_PER_USER)
        assert running.api("PUT", f"/code/{DIGEST}", body=TAR, user="ann").status == 204
        assert answered.select(0) == []
        monkeypatch.setattr(uploads, "PATIENCE_S", 0.0)
        refused = running.api("PUT", f"/code/{DIGEST}", body=TAR, user="bob")
        assert (refused.status, "in progress" in refused.error) == (429, True)
    # What was begun is gone with its clients, and there is room again.
    monkeypatch.setattr(uploads, "PATIENCE_S", LIMIT_S)
    assert running.api("PUT", f"/code/{DIGEST}", body=TAR, user="bob").status == 204
    wait_for(lambda: {path.stem for path in folder.iterdir()} == {DIGEST})


def test_a_silent_upload_is_ended_in_words_and_leaves_nothing(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "SILENCE_LIMIT_S", 0.1)
    with ExitStack() as stack:
        answer = _begin_upload(running, "ann", stack).makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"nothing more of the request came" in answer
    assert list((running.home / "code").iterdir()) == []


def test_a_body_that_drips_is_given_up(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_PACE_FROM_S", 0.0)
    monkeypatch.setattr(requests, "LEAST_BYTES_PER_S", 1 << 40)
    with closing(running.connect()) as connection:
        connection.putrequest("POST", "/api/v1/session")
        connection.putheader("Content-Length", "500000")
        connection.endheaders(b"{")
        answer = connection.getresponse()
        assert (answer.status, b"slower than" in answer.read()) == (408, True)


def test_a_job_can_be_submitted_while_a_stranger_sends_half_a_body(running: Running) -> None:
    with closing(running.connect()) as connection:
        connection.putrequest("POST", "/api/v1/users")
        connection.putheader("Content-Length", "500000")
        connection.endheaders(b'{"name"')
        job = running.api("POST", "/jobs", body={"name": "x", "command": "true"})
        assert (job.status, job.json["state"]) == (201, JobState.QUEUED)
