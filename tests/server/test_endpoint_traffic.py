"""What gets through to an endpoint, and how much at once: bodies, answers, websockets, many connections."""

import asyncio
import http.client
import socket
import ssl
import threading
from contextlib import ExitStack, closing, suppress
from urllib.parse import urlsplit

import pytest
from tests.server.conftest import LIMIT_S, Running, serving
from tests.server.test_endpoints import (
    UPGRADE,
    Job,
    all_of,
    ask,
    echo_body,
    entered,
    head,
    head_of,
    hello,
    opened,
    raw,
    refuse,
    websocket,
)
from tests.server.test_endpoints import job as job

from jumar.server.process.certificate import own_certificate
from jumar.server.proxy import visits
from jumar.server.proxy.endpoint import Place
from jumar.server.proxy.endpoints import Endpoints
from jumar.server.proxy.heads import BadHead
from jumar.server.proxy.tunnel import body_of
from jumar.tls import server_context


def test_bodies_pass_exactly_and_what_follows_them_does_not(shared: Running, job: Job) -> None:
    url = opened(shared, shared.running_job("ann").id)
    cookie = entered(url)
    job.serve = echo_body
    chunked = head(
        url, cookie, "Transfer-Encoding: chunked", "Expect: 100-continue", first="POST / HTTP/1.1"
    )
    body = b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nX-Trailer: 1\r\n\r\n"
    smuggled = b"GET /admin HTTP/1.1\r\nHost: x\r\n\r\n"
    with raw(url, chunked) as stream:
        assert head_of(stream) == b"HTTP/1.1 100 Continue\r\n\r\n"
        stream.sendall(body + smuggled)
        answer = all_of(stream)
    # What follows is a request of its own, with a Host and without a cookie of its own.
    first, _, rest = answer.partition(b"\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200 ")
    assert rest.startswith(b"HTTP/1.1 421 ")
    for bad in (b"-1\r\n", b"5\r\nhelloxx", b"\r\n", b"f" * 20 + b"\r\n", b"5 x\r\n"):
        with raw(url, chunked + bad + b"0\r\n\r\n") as stream:
            # Nobody waits for the rest of what cannot be understood.
            all_of(stream)
    for bad in (
        head(
            url, cookie, "Content-Length: 3", "Transfer-Encoding: chunked", first="POST / HTTP/1.1"
        ),
        head(url, cookie, "Content-Length: 3", "Content-Length: 4", first="POST / HTTP/1.1"),
        head(url, cookie, "X: a\nY: b"),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\r\n\r\n",
    ):
        with raw(url, bad) as stream:
            assert stream.recv(12) == b"HTTP/1.1 400"
    with raw(url, b"GET / HTTP/1.1\r\nX: " + b"y" * 66_000) as stream:
        assert stream.recv(12) == b"HTTP/1.1 431"
    job.settle()
    # Some of the first ones got as far as the job; of these, none.
    assert all(b"Expect: 100-continue" in one for one in job.heads)
    job.serve = hello
    with raw(url, head(url, cookie) + smuggled) as stream:
        assert all_of(stream).count(b"HTTP/1.1 ") == 2
    with raw(url, head(url, cookie, "Connection: close") + smuggled) as stream:
        assert all_of(stream).count(b"HTTP/1.1 ") == 1
    assert not any(b"admin" in seen for seen in job.heads)


@pytest.mark.parametrize(
    "body",
    [
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"0X0\r\n\r\n",
        b"5;a=b\nGET / HTTP/1.1\r\nhello\r\n0\r\n\r\n",
        b"5;a\rb\r\nhello\r\n0\r\n\r\n",
        b"5;a\0\r\nhello\r\n0\r\n\r\n",
        b"5\n;\r\nhello\r\n0\r\n\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\n\nGET / HTTP/1.1\r\n\r\n",
        b"5\r\nhello\r\n0\r\nX: a\nGET / HTTP/1.1\r\n\r\n",
        b"5\r\nhello\r\n0\r\nGET / HTTP/1.1\r\n\r\n",
    ],
)
def test_chunks_that_others_would_read_differently_are_refused(body: bytes) -> None:
    async def read(data: bytes) -> bytes:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return b"".join([part async for part in body_of(reader, None)])

    assert asyncio.run(read(b"05 ;a=b\r\nhello\r\n0\r\nX: 1\r\n\r\n")) == b"5\r\nhello\r\n0\r\n\r\n"
    with pytest.raises(BadHead):
        asyncio.run(read(body))


def test_a_connection_carries_one_request_after_the_other(shared: Running, job: Job) -> None:
    url = opened(shared, shared.running_job("ann").id)
    cookie, place = entered(url), urlsplit(url)
    long, short = b"x" * 300_000, b"4\r\nwiki\r\n0\r\nX: y\r\n\r\n"
    answers = {
        "length": (b"Content-Length: 300000\r\n\r\n" + long, long),
        "chunks": (b"Transfer-Encoding: chunked\r\n\r\n" + short + b"HTTP/1.1 200 Evil", b"wiki"),
        "nothing": (b"Content-Length: 3\r\n\r\nyesno", b"yes"),
    }
    said: list[bytes] = []
    job.serve = lambda stream: stream.sendall(b"HTTP/1.1 200 OK\r\n" + said[-1])
    line = http.client.HTTPConnection(place.hostname or "", place.port, timeout=LIMIT_S)
    with closing(line):
        line.connect()
        socket_of_all = line.sock
        for sent, wanted in [*answers.values(), *answers.values()]:
            said.append(sent)
            line.request("POST", "/", b"body", {"Cookie": cookie})
            assert line.getresponse().read() == wanted
            line.request("HEAD", "/", headers={"Cookie": cookie})
            assert line.getresponse().read() == b""
        assert line.sock is socket_of_all
        # An answer that ends with its connection, and one that breaks off, end ours.
        said.append(b"\r\nall of it")
        line.request("GET", "/", headers={"Cookie": cookie})
        assert line.getresponse().read() == b"all of it"
        assert line.sock is None
        for broken in (
            b"Content-Length: 9\r\n\r\nhalf",
            b"Transfer-Encoding: chunked\r\n\r\n5\r\nha",
        ):
            said.append(broken)
            line.request("GET", "/", headers={"Cookie": cookie})
            with pytest.raises(http.client.IncompleteRead):
                line.getresponse().read()
            line.close()
    # An older client is answered in its own way.
    said.append(b"Content-Length: 2\r\n\r\nok")
    with raw(url, head(url, cookie, first="GET / HTTP/1.0")) as stream:
        assert b"Connection: close\r\n" in all_of(stream)
    assert job.heads[-1].startswith(b"GET / HTTP/1.0\r\n")
    said.append(answers["chunks"][0])
    with raw(url, head(url, cookie, first="GET / HTTP/1.0")) as stream:
        assert stream.recv(12) == b"HTTP/1.1 502"


def test_a_job_may_answer_before_it_has_taken_all(shared: Running, job: Job) -> None:
    url = opened(shared, shared.running_job("ann").id)
    cookie = entered(url)
    job.serve = lambda stream: stream.sendall(
        b"HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nno..."
    )
    begun = head(url, cookie, "Content-Length: 1000000000000", first="POST / HTTP/1.1")
    with raw(url, begun + b"x" * 1000) as stream:
        assert b" 413 " in all_of(stream)


def test_too_many_connections_cost_those_that_ask_for_nothing(
    shared: Running, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits, "MOST_CONNECTIONS", 20)
    url = opened(shared, shared.running_job("ann").id)
    cookie = entered(url)
    job.serve = websocket
    with ExitStack() as stack:
        used = stack.enter_context(raw(url, head(url, cookie, *UPGRADE)))
        assert b" 101 " in head_of(used)
        silent = [stack.enter_context(raw(url, b"GET / HTTP/1.1\r\n")) for _ in range(30)]
        job.serve = hello
        assert ask(url, Cookie=cookie).text == "hello"
        used.sendall(b"still here")
        assert used.recv(100) == b"still here"
        with suppress(ConnectionError):
            assert silent[0].recv(10) == b""


def test_answers_that_are_no_answers_and_jobs_that_do_not_listen(shared: Running, job: Job) -> None:
    url = opened(shared, shared.running_job("ann").id, "http:6006")
    cookie = entered(url)
    for said in (
        b"SSH-2.0-x\r\n\r\n",
        b"",
        b"HTTP/1.1 101 Oh\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA b\r\n\r\n",
    ):
        job.serve = lambda stream, said=said: stream.sendall(said)
        assert ask(url, Cookie=cookie).status == 502
    job.serve = refuse
    answer = ask(url, Cookie=cookie)
    assert (answer.status, "no process of the job listens" in answer.text) == (502, True)
    assert set(job.wishes) == {6006}


def test_a_websocket_is_carried_both_ways_and_closed_by_halves(shared: Running, job: Job) -> None:
    url = opened(shared, shared.running_job("ann").id)
    cookie = entered(url)
    job.serve = websocket
    sent = bytes(range(256)) * 8192
    with raw(url, head(url, cookie, *UPGRADE)) as stream:
        assert b"Upgrade: websocket" in head_of(stream)
        # Slowly: what is not taken waits in the job, not in the server.
        writer = threading.Thread(
            target=lambda: (stream.sendall(sent), stream.shutdown(socket.SHUT_WR))
        )
        writer.start()
        found = all_of(stream)
        writer.join(LIMIT_S)
    assert found == sent + b"bye"


@pytest.mark.parametrize("count", [150, pytest.param(1000, marks=pytest.mark.full)])
def test_hundreds_of_idle_connections_hold_up_nobody(shared: Running, job: Job, count: int) -> None:
    url = opened(shared, shared.running_job("ann").id)
    cookie = entered(url)
    job.serve = websocket
    with ExitStack() as stack:
        idle = [stack.enter_context(raw(url, head(url, cookie, *UPGRADE))) for _ in range(count)]
        for one in idle:
            assert b" 101 " in head_of(one)
        half = [stack.enter_context(raw(url, b"GET / HTTP/1.1\r\n")) for _ in range(50)]
        idle[77].sendall(b"still here")
        assert idle[77].recv(100) == b"still here"
        job.serve = hello
        assert ask(url, Cookie=cookie).text == "hello"
        assert len(half) == 50


def test_an_endpoint_speaks_tls_where_the_server_does(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("tls")
    certificate = own_certificate(folder, "127.0.0.1")
    place = Place(tls=server_context(certificate))
    trusting = ssl.create_default_context(cafile=str(certificate.path))
    trusting.check_hostname = False
    made = Job()
    with serving(folder, endpoints=Endpoints(place)) as server:
        monkeypatch.setattr(server.engine, "start_beside", made.start_beside, raising=False)
        url = opened(server, server.running_job("ann").id)
        assert url.startswith("https://")
        where = urlsplit(url)
        netloc = (where.hostname or "", where.port or 0)
        line = http.client.HTTPSConnection(*netloc, timeout=LIMIT_S, context=trusting)
        with ExitStack() as stack:
            stack.enter_context(closing(line))
            # Who connects and says nothing, or speaks plainly, holds up nobody.
            # Nor do they where there is room for few.
            monkeypatch.setattr(visits, "MOST_CONNECTIONS", 8)
            plainly = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
            for said in (plainly, b"\x16\x03\x01", *[b""] * 12):
                stranger = stack.enter_context(socket.create_connection(netloc, LIMIT_S))
                stranger.sendall(said)
            line.request("GET", f"{where.path}?{where.query}")
            answer = line.getresponse()
            answer.read()
            cookie, _, rest = answer.headers["Set-Cookie"].partition(";")
            assert "Secure" in rest
            for _ in range(2):
                line.request("POST", "/", b"x" * 200_000, {"Cookie": cookie})
                assert line.getresponse().read() == b"hello"
            assert b"X-Forwarded-Proto: https\r\n" in made.heads[-1]
            made.serve = websocket
            plain = socket.create_connection(netloc, LIMIT_S)
            with trusting.wrap_socket(plain) as stream:
                stream.sendall(head(url, cookie, *UPGRADE, f"Origin: https://{where.netloc}"))
                assert b" 101 " in head_of(stream)
                stream.sendall(b"ping")
                assert stream.recv(10) == b"ping"
