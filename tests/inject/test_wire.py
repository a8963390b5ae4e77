"""The HTTP connection of the small S3 client, against servers that answer byte by byte as told."""

import select
import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.manners import make_authority

from jumar.inject.moxing_path.jumar_s3 import S3, Endpoint, Many, Small
from jumar.inject.moxing_path.jumar_s3.wire import Connection, Response

OK = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def answering(*answers: list[bytes], stays: bool = False) -> Generator[int]:
    """A server that gives one answer a connection, in these pieces, and closes it."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        for pieces in answers:
            client, _ = listener.accept()
            with client:
                while not client.recv(65536).endswith(b"\r\n\r\n"):
                    pass
                for piece in pieces:
                    client.sendall(piece)
                if stays:
                    over.wait(180)

    server = threading.Thread(target=serve)
    server.start()
    try:
        yield listener.getsockname()[1]
    finally:
        over.set()
        server.join(180)
        listener.close()


def get(port: int, timeout_s: float = 180.0) -> tuple[Connection, Response]:
    connection = Connection("127.0.0.1", port, timeout_s)
    return connection, connection.ask("GET", "/", {"host": "here"}, None)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=90_000), max_size=4), st.integers(1, 7))
def test_a_body_in_chunks_is_whole_however_it_is_cut(chunks: list[bytes], cut: int) -> None:
    body = b"".join(b"%x;more\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    sent = OK + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\nLate: yes\r\n\r\n"
    step = len(sent) // cut + 1
    with answering([sent[at : at + step] for at in range(0, len(sent), step)]) as port:
        connection, answer = get(port)
        assert answer.read(1 << 30) == b"".join(chunks)
        assert answer.done
        connection.close()


def test_a_body_that_ends_with_the_connection_is_whole() -> None:
    with answering([OK + b"\r\nhal", b"f of it"]) as port:
        connection, answer = get(port)
        assert answer.read(1 << 30) == b"half of it"
        assert not connection.is_open


def test_a_body_that_is_cut_is_told() -> None:
    with answering([OK + b"content-length: 10\r\n\r\nhalf"]) as port:
        connection, answer = get(port)
        with pytest.raises(ConnectionError, match="cut short"):
            answer.read(1 << 30)
        connection.close()


def test_a_server_that_says_nothing_is_not_waited_for_longer_than_the_limit() -> None:
    with (
        answering([], stays=True) as port,
        pytest.raises(TimeoutError, match=r"no data arrived for 0\.3"),
    ):
        get(port, timeout_s=0.3)
    with answering([OK + b"content-length: 10\r\n\r\nhalf"], stays=True) as port:
        connection, answer = get(port, timeout_s=0.3)
        with pytest.raises(TimeoutError):
            answer.read(1 << 30)
        connection.close()


def test_early_words_are_passed_over() -> None:
    with answering([b"HTTP/1.1 100 Continue\r\n\r\n", OK + b"Content-Length: 2\r\n\r\nok"]) as port:
        connection, answer = get(port)
        assert answer.read(10) == b"ok"
        assert connection.is_open
        connection.close()


@pytest.mark.parametrize("head", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 2x0\r\n\r\n", b"x" * 200_000])
def test_what_is_not_http_is_told(head: bytes) -> None:
    with answering([head]) as port, pytest.raises(ConnectionError):
        get(port)


def test_a_kept_connection_that_the_server_closed_is_made_anew() -> None:
    one = [OK + b"content-length: 0\r\netag: one\r\n\r\n"]
    with answering(one, one) as port:
        client = S3(Endpoint(f"http://127.0.0.1:{port}"))
        assert client.head("b", "k").etag == "one"
        assert client.head("b", "k").etag == "one"
        client.close()


def test_line_ends_cannot_be_smuggled_into_a_request() -> None:
    connection = Connection("127.0.0.1", 1, 1.0)
    for target, value in (("/", "a\nb: c"), ("/a b", "c")):
        with pytest.raises(ValueError, match="cannot be sent"):
            connection.ask("GET", target, {"x": value}, None)


def test_of_many_objects_those_that_do_not_come_are_told_apart() -> None:
    good = [OK + b"content-length: 2\r\netag: one\r\nconnection: close\r\n\r\nok"]
    cut = [OK + b"content-length: 9\r\n\r\nhalf"]
    gone = [b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone"]
    with answering(good, cut, gone, good) as port:
        client = S3(Endpoint(f"http://127.0.0.1:{port}"))
        with closing(Many(client, "b", 1, most=1)) as many:
            got = list(many.each(map(Small, "wxyz")))
    assert [one.key for one in got] == ["w", "x", "y", "z"]
    assert [one.data for one in got] == [b"ok", None, None, b"ok"]


def test_what_comes_behind_an_answer_is_not_taken_for_the_next_one() -> None:
    good = OK + b"content-length: 2\r\n\r\nok"
    more = good + OK + b"content-length: 5\r\n\r\nother"
    with answering([more], [good]) as port:
        client = S3(Endpoint(f"http://127.0.0.1:{port}"))
        with closing(Many(client, "b", 1, most=1)) as many:
            got = list(many.each(map(Small, "wx")))
    assert [one.data for one in got] == [b"ok", b"ok"]


@pytest.mark.parametrize("head", [b"", b"content-length: 4\r\n", b"content-length: 9\r\n"])
@pytest.mark.parametrize("is_ended", [True, False])
def test_an_encrypted_body_ends_where_the_server_says_so(
    tmp_path: Path, head: bytes, is_ended: bool
) -> None:
    certificate, server_side = make_authority(tmp_path)

    def serve() -> None:
        client = server_side.wrap_socket(listener.accept()[0], server_side=True)
        client.recv(65536)
        client.sendall(OK + head + b"\r\nhalf")
        if is_ended:
            # It waits for the same from the client, which just closes.
            with suppress(OSError):
                client.unwrap()
        client.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        tls = ssl.create_default_context(cafile=str(certificate))
        connection = Connection("127.0.0.1", listener.getsockname()[1], 180.0, tls)
        with closing(connection):
            answer = connection.ask("GET", "/", {"host": "here"}, None)
            if b"4" in head or (is_ended and not head):
                assert answer.read(1 << 30) == b"half"
            else:
                with pytest.raises(ConnectionError, match=r"cut short|had not ended it"):
                    answer.read(1 << 30)
        server.join(180)


def test_many_requests_end_where_no_server_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    client = S3(Endpoint(f"http://127.0.0.1:{port}"))
    with closing(Many(client, "b", 100)) as many:
        assert list(many.each(map(Small, "wxyz"))) == []


def test_an_answer_is_taken_once_all_of_it_has_arrived() -> None:
    whole = OK + b"Content-Length: 5\r\n\r\nhello"
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection("127.0.0.1", server.getsockname()[1], 30.0)
        connection.open(1 << 16)
        other = server.accept()[0]
        with other:
            assert connection.is_quiet()
            for end in range(1, len(whole)):
                other.sendall(whole[end - 1 : end])
                _wait_until_readable(connection)
                assert not connection.has_answered()
            other.sendall(whole[-1:])
            _wait_until_readable(connection)
            assert connection.has_answered()
            assert connection.answer("GET").read(100) == b"hello"
        _wait_until_readable(connection)
        assert not connection.is_quiet()


def _wait_until_readable(connection: Connection) -> None:
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    assert waiting.poll(30_000)
