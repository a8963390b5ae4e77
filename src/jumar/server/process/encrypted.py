"""The port of a server that speaks TLS.

Who connects is counted from the first moment, and the first byte is looked at before it is read: whoever
speaks plain HTTP is told so in plain HTTP. Handshakes take place side by side, so a slow one holds up
nobody."""

import asyncio
import contextlib
import json
import socket
import ssl
import time
from collections.abc import Callable

from jumar.errors import JumarError
from jumar.server.accepting import Accepting
from jumar.server.process.connections import HEAD_LIMIT_S, Connections, WatchedProtocol

_HANDSHAKE = 0x16
_LINGER_S = 2.0


class NotEncrypted(JumarError):
    """Plain HTTP came to a port that speaks TLS."""


class EncryptedPort:
    """A listening socket whose connections become HTTP once they are encrypted."""

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        make: Callable[[], WatchedProtocol],
        connections: Connections,
    ) -> None:
        self._context = context
        self._make = make
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._callers: set[_Caller] = set()
        self._accepting = Accepting(listening, self._take)

    def close(self) -> None:
        """Take nobody in any more; who is not through the handshake has asked for nothing yet."""
        self._accepting.close()
        for caller in list(self._callers):
            caller.abort()

    def _take(self, opened: socket.socket, address: str) -> None:
        caller = _Caller(opened, address, self._loop, self._gone)
        self._callers.add(caller)
        self._loop.add_reader(opened, self._first_byte, caller)
        self._connections.join(caller)

    def _gone(self, caller: "_Caller") -> None:
        self._callers.discard(caller)
        self._connections.leave(caller)

    def _first_byte(self, caller: "_Caller") -> None:
        try:
            first = caller.socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        self._loop.remove_reader(caller.socket)
        if not first:
            caller.abort()
        elif first[0] == _HANDSHAKE:
            caller.task = self._loop.create_task(self._encrypt(caller))
        else:
            self._tell(caller)

    async def _encrypt(self, caller: "_Caller") -> None:
        def make() -> WatchedProtocol:
            protocol = self._make()
            protocol.before = caller
            return protocol

        try:
            await self._loop.connect_accepted_socket(
                make,
                caller.socket,
                ssl=self._context,
                ssl_handshake_timeout=HEAD_LIMIT_S,
                ssl_shutdown_timeout=_LINGER_S,
            )
        except OSError:
            # Strangers break off, speak something else, or do not trust us: nothing to note.
            caller.hand_over()

    def _tell(self, caller: "_Caller") -> None:
        with contextlib.suppress(OSError):
            # What was not read would have the answer thrown away on the other side.
            caller.socket.recv(1 << 16)
            caller.socket.send(_SPEAKS_TLS)
            caller.socket.shutdown(socket.SHUT_WR)
        self._loop.call_later(_LINGER_S, caller.abort)


class _Caller:
    """A connection that is not encrypted yet."""

    is_known = False
    is_idle = True

    def __init__(
        self,
        opened: socket.socket,
        address: str,
        loop: asyncio.AbstractEventLoop,
        gone: "Callable[[_Caller], None]",
    ) -> None:
        self.socket = opened
        self.address = address
        self.task: asyncio.Task[None] | None = None
        self._loop = loop
        self._gone = gone
        self._since = time.monotonic()
        self._is_open = True

    def is_late(self, latest: float) -> bool:
        return self._since < latest

    def hand_over(self) -> None:
        """The socket belongs to a transport now."""
        self._is_open = False
        self._gone(self)

    def abort(self) -> None:
        if not self._is_open:
            return
        self.hand_over()
        if self.task is None:
            self._loop.remove_reader(self.socket)
            self.socket.close()
            return
        # A transport has the socket, and closes it when the handshake has failed.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


def _answer(error: JumarError) -> bytes:
    body = json.dumps({"error": error.as_json()}).encode() + b"\n"
    head = (
        f"HTTP/1.1 {error.status} Bad Request\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


_SPEAKS_TLS = _answer(
    NotEncrypted("this port speaks TLS only", hint="write https:// instead of http://")
)
