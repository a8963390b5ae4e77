"""A port for endpoints. Each connection counts from its first moment on, before any handshake: who connects
and says nothing costs a descriptor as well."""

import asyncio
import socket
import ssl
from collections.abc import Callable

from jumar.server.accepting import Accepting
from jumar.server.proxy.heads import MOST_HEAD_BYTES
from jumar.server.proxy.tunnel import HEAD_LIMIT_S, Streams

_BACKLOG = 1024
_ALIVE_AFTER_S, _ALIVE_EVERY_S = 60, 30


class Port:
    """Takes connections; used by the event loop only."""

    def __init__(self, address: str, port: int, serve: Callable[[socket.socket], None]) -> None:
        """OSError where that port cannot be had."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listening = socket.create_server((address, port), family=family, backlog=_BACKLOG)
        self._serve = serve
        self.number: int = self._listening.getsockname()[1]
        self._accepting = Accepting(self._listening, self._take)

    def close(self) -> None:
        """Take nobody in any more."""
        self._accepting.close()
        self._listening.close()

    def _take(self, opened: socket.socket, _address: str) -> None:
        # Who is gone without a word is noticed after some minutes, however long a websocket is silent.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _ALIVE_AFTER_S)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _ALIVE_EVERY_S)
        self._serve(opened)


async def streams_of(opened: socket.socket, tls: ssl.SSLContext | None) -> Streams:
    """The connection as streams, after its handshake where it has one; OSError."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MOST_HEAD_BYTES, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    try:
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            opened,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else HEAD_LIMIT_S,
        )
    except BaseException:
        opened.close()
        raise
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
