"""Websockets behind the guard: how many a user may have, how large messages are, how long silence lasts."""

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from starlette.types import Message, Receive, Send

from jumar.errors import TooLarge, TooManyConnections, TooSlow

MOST_PER_USER = 16
MOST_MESSAGE_BYTES = 1 << 20
SILENCE_LIMIT_S = 600.0
"""Without a message from the client. Pings are answered below and do not count."""
TAKING_LIMIT_S = 30.0
"""For the client to take one message."""
_POLICY_VIOLATED, _SERVER_FAILED = 1008, 1011


class Sockets:
    """The open websockets of one server; used by its event loop only."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @contextmanager
    def place(self, user: str) -> Generator[None]:
        """Count one more of `user`, for as long as it is open."""
        if self._open[user] >= MOST_PER_USER:
            raise TooManyConnections(
                f"{user} already has {MOST_PER_USER} open websockets", hint="close some of them"
            )
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]


class Bounded:
    """`receive` and `send` of one websocket, within the limits."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_accepted = False
        self._is_closed = False

    async def receive(self) -> Message:
        """The next message, if it comes in time and is not too large."""
        try:
            async with asyncio.timeout(SILENCE_LIMIT_S):
                message = await self._receive()
        except TimeoutError:
            raise TooSlow(f"no message came for {SILENCE_LIMIT_S:.0f} s") from None
        if message["type"] == "websocket.disconnect":
            self._is_closed = True
        content = message.get("bytes") or (message.get("text") or "").encode()
        if len(content) > MOST_MESSAGE_BYTES:
            raise TooLarge(f"the message is larger than {MOST_MESSAGE_BYTES} bytes")
        return message

    async def send(self, message: Message) -> None:
        """Send, if the client takes it in time. An answer in HTTP that comes too late is a close."""
        kind = message["type"]
        if self._is_accepted and kind.startswith("websocket.http.response"):
            await self.close(_POLICY_VIOLATED)
            return
        self._is_accepted |= kind == "websocket.accept"
        self._is_closed |= kind in ("websocket.close", "websocket.http.response.body")
        try:
            async with asyncio.timeout(TAKING_LIMIT_S):
                await self._send(message)
        except TimeoutError:
            self._is_closed = True
            raise TooSlow(f"a message was not taken for {TAKING_LIMIT_S:.0f} s") from None

    async def close(self, code: int = _SERVER_FAILED) -> None:
        """End it, unless it has ended."""
        if not self._is_closed:
            await self.send({"type": "websocket.close", "code": code})
