"""A port for endpoints. Each connection counts from its first moment on, before any handshake: who connects
and says nothing costs a descriptor as well."""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable

from jumar.server.proxy.heads import MOST_HEAD_BYTES
from jumar.server.proxy.tunnel import HEAD_LIMIT_S, Streams

log = logging.getLogger(__name__)

_BACKLOG = 1024
_MOST_AT_ONCE = 100
_PAUSE_S = 1.0
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_ALIVE_AFTER_S, _ALIVE_EVERY_S = 60, 30


class Port:
    """Takes connections; used by the event loop only."""

    def __init__(self, address: str, port: int, serve: Callable[[socket.socket], None]) -> None:
        """OSError where that port cannot be had."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listening = socket.create_server((address, port), family=family, backlog=_BACKLOG)
        self._listening.setblocking(False)
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self.number: int = self._listening.getsockname()[1]
        self._watch()

    def close(self) -> None:
        """Take nobody in any more."""
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening)
            self._listening.close()

    def _watch(self) -> None:
        if self._listening.fileno() >= 0:
            self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(_MOST_AT_ONCE):
            try:
                opened, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _PASSING:
                    raise
                log.warning("no connection to an endpoint can be taken: %s", error.strerror)
                self._loop.remove_reader(self._listening)
                self._loop.call_later(_PAUSE_S, self._watch)
                return
            opened.setblocking(False)
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
