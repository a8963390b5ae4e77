"""Websockets behind the guard: a handshake is held to the rules of requests, an open one to limits.

The product has no websocket route yet; these are the application's, with two routes more."""

import asyncio
import json
import socket
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from fastapi import FastAPI, WebSocket
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect
from tests.server.conftest import LIMIT_S, Running
from tests.waiting import wait_for
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

from jumar.server.app import create_app
from jumar.server.edge import sockets
from jumar.server.edge.auth import Member
from jumar.server.edge.guard import Guard

ended = threading.Event()


async def echo(websocket: WebSocket, user: Member) -> None:
    await websocket.accept()
    try:
        while True:
            await websocket.send_text(f"{user.name}: {await websocket.receive_text()}")
    except WebSocketDisconnect:
        return


async def flood(websocket: WebSocket) -> None:
    await websocket.accept()
    try:
        while True:
            await websocket.send_text("x" * 100_000)
    finally:
        ended.set()


async def fail(websocket: WebSocket) -> None:
    await websocket.accept()
    raise RuntimeError("the inside")


@dataclass
class Wire:
    """A client of one websocket."""

    socket: socket.socket
    protocol: WSConnection

    def send(self, text: str) -> None:
        self.socket.sendall(self.protocol.send(TextMessage(data=text)))

    def next(self) -> Event:
        """The next thing that the server does."""
        while True:
            for event in self.protocol.events():
                return event
            data = self.socket.recv(65536)
            self.protocol.receive_data(data or None)

    def close(self) -> None:
        self.socket.sendall(self.protocol.send(CloseConnection(code=1000)))
        assert isinstance(self.next(), CloseConnection)


@dataclass(frozen=True)
class Server:
    """The application on a server that speaks websockets."""

    running: Running
    port: int

    @contextmanager
    def connect(
        self, path: str = "/echo", *, user: str | None = "ann", host: str = "", **headers: str
    ) -> Generator[Wire]:
        """An open connection with the handshake sent."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if user is not None:
            sent["Authorization"] = f"Bearer {self.running.token(user)}"
        extra = [(name.encode(), value.encode()) for name, value in sent.items()]
        opened = socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S)
        with closing(opened):
            protocol = WSConnection(ConnectionType.CLIENT)
            request = Request(
                host=host or f"127.0.0.1:{self.port}", target=path, extra_headers=extra
            )
            opened.sendall(protocol.send(request))
            yield Wire(opened, protocol)

    def refusal(self, path: str = "/echo", **more: Any) -> tuple[int, str]:
        """Status and code of a handshake that is refused."""
        with self.connect(path, **more) as wire:
            answer, body = wire.next(), b""
            assert isinstance(answer, RejectConnection), answer
            while answer.has_body:
                part = wire.next()
                assert isinstance(part, RejectData)
                body += part.data
                if part.body_finished:
                    break
        return answer.status_code, json.loads(body)["error"]["code"] if body else ""

    def opened(self, wire: Wire) -> Wire:
        accepted = wire.next()
        assert isinstance(accepted, AcceptConnection), accepted
        return wire


@pytest.fixture
def server(running: Running) -> Generator[Server]:
    app: FastAPI = create_app(running.site)
    app.add_api_websocket_route("/echo", echo)
    app.add_api_websocket_route("/flood", flood)
    app.add_api_websocket_route("/fail", fail)
    config = uvicorn.Config(app, port=0, ws="wsproto", lifespan="off", log_config=None)
    serving = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serving.run, args=([listener],))
    thread.start()
    try:
        wait_for(lambda: serving.started)
        yield Server(running, listener.getsockname()[1])
    finally:
        serving.should_exit = True
        thread.join(timeout=LIMIT_S)
        listener.close()
        assert not thread.is_alive()


def test_who_is_signed_in_is_let_in_by_token_or_by_cookie(server: Server) -> None:
    cookie = f"jumar_session={server.running.token('bob')}"
    own = f"http://127.0.0.1:{server.port}"
    with (
        server.connect(user="ann") as ann,
        server.connect(user=None, Cookie=cookie, Origin=own) as bob,
    ):
        for wire, name in ((ann, "ann"), (bob, "bob")):
            server.opened(wire).send("hi")
            answer = wire.next()
            assert isinstance(answer, TextMessage)
            assert answer.data == f"{name}: hi"
            wire.close()


@pytest.mark.parametrize(
    ("sent", "refusal"),
    [
        ({"user": None}, (401, "not-signed-in")),
        ({"user": None, "Cookie": "jumar_session=jm_nobody"}, (401, "not-signed-in")),
        ({"user": "eve"}, (403, "not-approved")),
        ({"Origin": "http://evil.example"}, (403, "not-allowed")),
        ({"Origin": "null"}, (403, "not-allowed")),
        ({"Sec_Fetch_Site": "same-site"}, (403, "not-allowed")),
        ({"host": "evil.example"}, (422, "invalid-input")),
        ({"path": "/echo/%00"}, (422, "invalid-input")),
        ({"path": "/echo?text=%00"}, (422, "invalid-input")),
        ({"X_Large": "x" * 40_000, "X_More": "x" * 40_000}, (431, "head-too-large")),
        ({"path": "/nowhere"}, (403, "")),
        ({"path": "/api/v1/jobs"}, (403, "")),
    ],
    ids=str,
)
def test_a_handshake_is_refused_like_a_request(
    server: Server, sent: dict[str, Any], refusal: tuple[int, str]
) -> None:
    assert server.refusal(**sent) == refusal


def test_a_message_that_is_too_large_ends_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "MOST_MESSAGE_BYTES", 1000)
    with server.connect() as wire:
        server.opened(wire).send("x" * 1000)
        assert isinstance(wire.next(), TextMessage)
        # In characters it is not too large.
        wire.send("字" * 400)
        answer = wire.next()
        assert isinstance(answer, CloseConnection)
        assert answer.code == 1008


def test_silence_ends_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "SILENCE_LIMIT_S", 0.2)
    with server.connect() as wire:
        answer = server.opened(wire).next()
        assert isinstance(answer, CloseConnection)
        assert answer.code == 1008


def test_who_takes_nothing_is_not_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "TAKING_LIMIT_S", 0.2)
    ended.clear()
    with server.connect("/flood") as wire:
        server.opened(wire)
        assert ended.wait(LIMIT_S)


def test_one_user_has_a_bounded_number_of_them(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "MOST_PER_USER", 2)
    with server.connect() as one, server.connect() as two:
        server.opened(one)
        server.opened(two)
        assert server.refusal() == (429, "too-many-connections")
        with server.connect(user="bob") as other:
            server.opened(other).close()
        one.close()
        wait_for(lambda: _is_let_in(server))
        two.close()


def _is_let_in(server: Server) -> bool:
    with server.connect() as wire:
        if not isinstance(wire.next(), AcceptConnection):
            return False
        wire.close()
    return True


def test_a_failure_closes_it_and_tells_nothing(server: Server) -> None:
    with server.connect("/fail") as wire:
        answer = server.opened(wire).next()
        assert isinstance(answer, CloseConnection)
        assert (answer.code, answer.reason or "") == (1011, "")


def test_the_server_itself_speaks_no_websockets(running: Running) -> None:
    place = urlsplit(running.url)
    assert place.port is not None
    with Server(running, place.port).connect("/") as wire:
        answer = wire.next()
        assert isinstance(answer, RejectConnection)
        assert answer.status_code == 200


@pytest.mark.parametrize(("kind", "passes"), [("lifespan", True), ("webtransport", False)])
def test_the_guard_passes_no_kind_of_connection_unchecked(kind: str, passes: bool) -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def receive() -> Message:
        raise AssertionError("nothing is to be read")

    async def send(message: Message) -> None:
        raise AssertionError("nothing is to be sent")

    called = Guard(app, loopback_only=True)({"type": kind}, receive, send)
    if passes:
        asyncio.run(called)
    else:
        with pytest.raises(ValueError, match=kind):
            asyncio.run(called)
    assert seen == ([kind] if passes else [])
