"""The way to a server that misbehaves: a real one behind a proxy that cuts, and a scripted one."""

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.messages import message_of

from jumar.client import Client, End, LogChunk, Reconnecting
from jumar.errors import ServerUnreachable, StorageFull

Script = Callable[[socket.socket, int], None]


@contextmanager
def scripted(script: Script) -> Generator[str]:
    """A server that does `script(connection, how many came before)` with each connection."""
    count = iter(range(1_000_000))

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                script(self.request, next(count))

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def answer(connection: socket.socket, body: bytes, status: str = "200 OK") -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)


ME = b'{"name": "ann", "role": "member", "created_at": 1.0}'


@pytest.mark.parametrize("cut", ["before the answer", "within the head", "within the body"])
def test_a_submit_cut_off_is_one_job(client: Client, cut: str) -> None:
    """The first try reaches the real server; what it answers is lost."""
    real = urlsplit(client.url)
    assert real.hostname is not None

    def forward_and_cut(connection: socket.socket, number: int) -> None:
        with socket.create_connection((real.hostname, real.port or 0), timeout=180) as server:
            while request := message_of(connection):
                server.sendall(request)
                reply = message_of(server)
                if number == 0:
                    kept = {"before the answer": 0, "within the head": 20}.get(cut, len(reply) - 9)
                    connection.sendall(reply[:kept])
                    return
                connection.sendall(reply)

    name = f"cut-{time.time_ns()}"
    with scripted(forward_and_cut) as url:
        token = client.new_token("proxy")
        with Client(url, token) as unlucky:
            job = unlucky.submit({"name": name, "command": ["true"]})
    assert [found.id for found in client.jobs(text=name)] == [job.id]


def test_a_call_that_may_not_be_repeated_is_not() -> None:
    seen: list[bytes] = []

    def cut(connection: socket.socket, number: int) -> None:
        seen.append(message_of(connection))

    with scripted(cut) as url, Client(url, "jm_x") as client:
        with pytest.raises(ServerUnreachable):
            client.new_token("abc")
        assert len(seen) == 1


def test_reads_are_tried_again() -> None:
    def third_time_lucky(connection: socket.socket, number: int) -> None:
        message_of(connection)
        if number >= 2:
            answer(connection, ME)

    with scripted(third_time_lucky) as url, Client(url, "jm_x") as client:
        assert client.me().name == "ann"


def test_the_connection_is_kept() -> None:
    connections: list[int] = []

    def serve(connection: socket.socket, number: int) -> None:
        connections.append(number)
        while message_of(connection):
            answer(connection, ME)

    with scripted(serve) as url, Client(url, "jm_x") as client:
        for _ in range(5):
            client.me()
    assert connections == [0]


def test_the_connection_is_kept_between_files(tmp_path: Path) -> None:
    seen: list[int] = []
    page = b'{"path": "", "files": [%s], "next_after": null}' % b", ".join(
        b'{"path": "%d", "kind": "file", "size": 5, "modified_at": 1.0, "etag": "x", "target": null}'
        % number
        for number in range(3)
    )

    def serve(connection: socket.socket, number: int) -> None:
        while request := message_of(connection):
            seen.append(number)
            answer(connection, b"bytes" if b"/content" in request else page)

    with scripted(serve) as url, Client(url, "token") as client:
        assert client.fetch("x", folder=tmp_path).files == 3
    assert set(seen) == {0}, "over ssh each connection is a login"


def test_a_server_that_went_away_meanwhile() -> None:
    def once(connection: socket.socket, number: int) -> None:
        message_of(connection)
        answer(connection, ME)

    with scripted(once) as url, Client(url, "jm_x") as client:
        for _ in range(3):
            assert client.me().name == "ann"


def test_patience_has_an_end() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    started = time.monotonic()
    with Client(url, "jm_x", patience_s=0.5) as client, pytest.raises(ServerUnreachable) as caught:
        client.me()
    assert time.monotonic() - started > 0.4
    assert url in str(caught.value)
    assert caught.value.hint


def test_a_name_that_nobody_has_fails_at_once() -> None:
    with Client("http://no-such-host.invalid:1", "jm_x", patience_s=600) as client:
        started = time.monotonic()
        with pytest.raises(ServerUnreachable):
            client.me()
    assert time.monotonic() - started < 300


@pytest.mark.parametrize(
    "body", [b"<html>Bad gateway</html>", b"[]", b'{"error": "text"}', b'{"error": {}}', b""]
)
def test_errors_that_are_not_ours(body: bytes) -> None:
    def refuse(connection: socket.socket, number: int) -> None:
        message_of(connection)
        answer(connection, body, "507 Insufficient Storage")

    refused = pytest.raises(StorageFull, match="507 Insufficient Storage")
    with scripted(refuse) as url, Client(url, "jm_x") as client, refused:
        client.me()


def test_an_answer_that_is_not_json() -> None:
    def chat(connection: socket.socket, number: int) -> None:
        message_of(connection)
        answer(connection, b"hello there")

    refused = pytest.raises(ServerUnreachable, match="did not answer like a jumar server")
    with scripted(chat) as url, Client(url, "jm_x") as client, refused:
        client.me()


@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b'{"name": "ann"}'])
def test_json_that_is_no_record(body: bytes) -> None:
    def chat(connection: socket.socket, number: int) -> None:
        message_of(connection)
        answer(connection, body)

    refused = pytest.raises(ServerUnreachable, match="is not what was asked for")
    with scripted(chat) as url, Client(url, "jm_x") as client, refused:
        client.me()


def test_a_log_that_breaks_off_is_told_after_what_came() -> None:
    def cut(connection: socket.socket, number: int) -> None:
        message_of(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst line\n")

    with scripted(cut) as url, Client(url, "jm_x") as client:
        blocks = client.logs("digits")
        assert next(blocks) == b"first line\n"
        with pytest.raises(ServerUnreachable, match="the log of digits broke off"):
            next(blocks)


def sse(connection: socket.socket, *events: str) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    for event in events:
        connection.sendall(event.encode() + b"\n\n")


def test_follow_takes_up_where_it_was_cut() -> None:
    requests: list[bytes] = []

    def cut_twice(connection: socket.socket, number: int) -> None:
        requests.append(message_of(connection))
        if number == 0:
            sse(connection, 'id: 4\nevent: log\ndata: {"text": "one\\n", "offset": 0}', ": hm")
        elif number == 1:
            sse(connection, 'id: 8\nevent: log\ndata: {"text": "two\\n", "offset": 4}', "id: 9")
        else:
            sse(connection, 'event: end\ndata: {"state": "failed"}')

    with scripted(cut_twice) as url, Client(url, "jm_x") as client:
        events = list(client.follow("abc", tail=3))
    assert [event.text for event in events if isinstance(event, LogChunk)] == ["one\n", "two\n"]
    assert sum(isinstance(event, Reconnecting) for event in events) == 2
    assert isinstance(events[-1], End)
    assert b"stream?tail=3 " in requests[0]
    assert b"last-event-id" not in requests[0].lower()
    for request, offset in zip(requests[1:], (b"4", b"8"), strict=True):
        assert b"stream?offset=" + offset in request
        assert b"last-event-id: " + offset in request.lower()


def test_follow_gives_up_on_a_server_that_stays_away() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with Client(url, "jm_x") as client:
        events = client.follow("abc", patience_s=0.4)
        assert isinstance(next(events), Reconnecting)
        with pytest.raises(ServerUnreachable, match="lost the log"):
            list(events)


def test_threads_may_share_a_client(client: Client) -> None:
    errors: list[Exception] = []

    def ask() -> None:
        try:
            for _ in range(20):
                assert client.me().role == "admin"
        except Exception as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=180)
    assert errors == []
