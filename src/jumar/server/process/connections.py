"""The open connections of a server: how many there may be, and which have to go for others.

A connection costs a stranger nothing and the server a descriptor. When there are too many, those go
that ask for nothing: half a request, or silence. Refusing newcomers instead would let whoever came
first keep everybody else out."""

import asyncio
import fcntl
import logging
import resource
import socket
import struct
import termios
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Protocol

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from jumar.people.unix import Peer
from jumar.server.edge.requests import MOST_HEAD_BYTES
from jumar.server.process.peers import peer_at

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 4096
HEAD_LIMIT_S = 15.0
"""From the first byte of a request, or from the connecting, to the end of its head."""
# What the server itself needs at any time: the database, job directories, logs, children.
_RESERVE = 256
_TELL_EVERY_S = 60.0


def room_for_connections() -> int:
    """How many connections the limit of descriptors leaves room for."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    # Who follows a log has that file open as well.
    return max(8, min(MOST_CONNECTIONS, (limit - min(_RESERVE, limit // 4)) // 2))


class Watched(Protocol):
    """A connection, as far as it matters here."""

    @property
    def address(self) -> str: ...

    @property
    def is_known(self) -> bool: ...

    @property
    def is_idle(self) -> bool: ...

    def is_late(self, latest: float) -> bool: ...

    def abort(self) -> None: ...


class Before(Protocol):
    """What a connection was before it was encrypted."""

    def hand_over(self) -> None: ...


class Connections:
    """All connections, the oldest first; used by the event loop only."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_per_address = max(4, most // 2)
        self._all: dict[Watched, None] = {}
        self._at: Counter[str] = Counter()
        self._told_at = float("-inf")

    def join(self, newcomer: "Watched") -> None:
        """A connection was opened; others may be closed for it, or it for them."""
        self._all[newcomer] = None
        self._at[newcomer.address] += 1
        if self._at[newcomer.address] > self._most_per_address:
            self._make_room(newcomer, newcomer.address)
        if len(self._all) > self._most and not self._make_room(newcomer, None):
            self._close([newcomer])

    def leave(self, connection: "Watched") -> None:
        """A connection has ended; saying so twice is the same as once."""
        if connection not in self._all:
            return
        del self._all[connection]
        self._at[connection.address] -= 1
        if not self._at[connection.address]:
            del self._at[connection.address]

    def sweep(self) -> None:
        """Close those that have been about to ask for too long."""
        latest = time.monotonic() - HEAD_LIMIT_S
        for connection in list(self._all):
            if connection.is_late(latest):
                self.leave(connection)
                connection.abort()

    def _make_room(self, newcomer: "Watched", address: str | None) -> bool:
        """Close some that ask for nothing, strangers first; False when there are none."""
        idle = [one for one in self._idle(address) if one is not newcomer]
        # Several at once: to go through all of them for each newcomer would be too much.
        strangers = [one for one in idle if not one.is_known][: max(1, self._most // 16)]
        return self._close(strangers or idle[:1])

    def _idle(self, address: str | None) -> "Iterator[Watched]":
        for one in self._all:
            if (address is None or one.address == address) and one.is_idle:
                yield one

    def _close(self, connections: "list[Watched]") -> bool:
        now, before = time.monotonic(), len(self._all)
        for connection in connections:
            self.leave(connection)
            connection.abort()
        if connections and now - self._told_at > _TELL_EVERY_S:
            self._told_at = now
            log.warning(
                "%d connections of at most %d; closed %d that asked for nothing or came last",
                before,
                self._most,
                len(connections),
            )
        return bool(connections)


def peer_of(transport: asyncio.BaseTransport) -> Peer | None:
    """Who is at the other end of a Unix socket; of a connection over a network nobody knows."""
    opened = transport.get_extra_info("socket")
    if opened is None or opened.family != socket.AF_UNIX:
        return None
    return peer_at(opened)


class WatchedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP, which tells what a connection is at."""

    def __init__(
        self,
        connections: Connections,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._watched_by = connections
        self._head_since: float | None = None
        self._head_bytes: int | None = None
        """What came of a head that is not whole yet."""
        self._peer: Peer | None = None
        self.before: Before | None = None
        self.address = ""
        """Where it comes from."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._peer = peer_of(transport)
        self.address = self.client[0] if self.client else ""
        if self._peer is not None:
            # No address of a network looks like this.
            self.address = f"uid:{self._peer.uid}"
            self.client = (self.address, 0)
        self._head_since = time.monotonic()
        if self.before is not None:
            self.before.hand_over()
        self._watched_by.join(self)

    def abort(self) -> None:
        """Close it now."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._watched_by.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            # The guard answers to one that is whole and somewhat too large; the parser would keep any.
            if self._head_bytes > 2 * MOST_HEAD_BYTES:
                self.transport.abort()
        if not self._is_busy and self._head_since is None:
            self._head_since = time.monotonic()

    def on_message_begin(self) -> None:
        if self._head_since is None:
            self._head_since = time.monotonic()
        self._head_bytes = 0
        super().on_message_begin()
        if self._peer is not None:
            self.scope["state"]["peer"] = self._peer  # pyright: ignore[reportTypedDictNotRequiredAccess]

    def on_headers_complete(self) -> None:
        self._head_since = self._head_bytes = None
        super().on_headers_complete()

    @property
    def is_known(self) -> bool:
        """Whether its last request came from somebody who is signed in."""
        return self.cycle is not None and "user" in self.cycle.scope["state"]  # pyright: ignore[reportUnnecessaryComparison, reportTypedDictNotRequiredAccess] - None before the first request

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost when it is closed: no request, or half of a stranger's."""
        has_request = self._is_busy and (self.is_known or not self.cycle.more_body)
        return not has_request and not self._has_unread()

    def is_late(self, latest: float) -> bool:
        """Whether the head of a request is still to come that should have been here by now."""
        return self._head_since is not None and not self._is_busy and self._head_since < latest

    @property
    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison] - None before the first request

    def _has_unread(self) -> bool:
        """Whether something came that the event loop has not got to yet."""
        try:
            descriptor: int = self.transport.get_extra_info("socket").fileno()
            return bool(struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))[0])
        except (AttributeError, OSError):
            # It is being closed.
            return False
