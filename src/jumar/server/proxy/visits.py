"""Connections of browsers to endpoints: who is let in, and what is passed on.

A connection carries one request after the other, each judged for itself. When there are too many, those
go that have asked for nothing, strangers first: whoever came first cannot keep everybody else out."""

import asyncio
import contextlib
import ipaddress
import logging
import socket
import time
from functools import partial
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from jumar.errors import Conflict, JumarError, NotAllowed, NotSignedIn
from jumar.people.rights import Right
from jumar.server.proxy.endpoint import Endpoint, Place, Tunnel
from jumar.server.proxy.heads import MOST_HEAD_BYTES, BadHead, RequestHead, foreign_source
from jumar.server.proxy.link import Link
from jumar.server.proxy.tickets import Ticket, Tickets
from jumar.server.proxy.tunnel import (
    HEAD_LIMIT_S,
    Exchange,
    Gone,
    Streams,
    own_answer,
    read_request,
)

log = logging.getLogger(__name__)

ENTER = "/_jumar/enter"
MOST_CONNECTIONS = 4096
KEEP_S = 75.0
"""How long a browser that is signed in may be silent between two requests."""
_BACKLOG = 1024
_LINGER_S = 2.0
_TAKING_LIMIT_S = 60.0
"""For a slow reader to take what is left of an answer."""
_BLOCK = 1 << 16
_ALIVE_AFTER_S, _ALIVE_EVERY_S = 60, 30


class House(Protocol):
    """What visits need of the endpoints."""

    def find(self, label: str) -> Endpoint | None:
        """One that is open."""
        ...

    async def linked(self, endpoint: Endpoint) -> Link:
        """The way to its host; Conflict, Unavailable."""
        ...

    async def check(self, right: Right, owner: str) -> None:
        """NotSignedIn or NotAllowed once who asked may no longer open jobs of `owner`."""
        ...

    async def note(self) -> None:
        """Write down who is in."""
        ...


class Visits:
    """All of one server; used by the event loop only."""

    def __init__(self, place: Place, tickets: Tickets, house: House) -> None:
        self._place = place
        self._tickets = tickets
        self._house = house
        self._serving: set[asyncio.Task[None]] = set()
        self._silent: tuple[dict[asyncio.StreamWriter, None], ...] = ({}, {})
        """Those that ask for nothing now, the oldest first: strangers, and who has been let in."""

    async def listen(self, endpoint: Endpoint | None, port: int) -> asyncio.Server:
        """Take connections at a port: for one endpoint, or for the one that a request names."""
        tls = self._place.tls
        limits = {} if tls is None else {"ssl_handshake_timeout": HEAD_LIMIT_S}
        return await asyncio.start_server(
            partial(self._accept, endpoint),
            self._place.address,
            port,
            limit=MOST_HEAD_BYTES,
            ssl=tls,
            backlog=_BACKLOG,
            **limits,
        )

    async def close(self) -> None:
        """End all connections."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def check(self, endpoint: Endpoint, ticket: Ticket) -> bool:
        """Whether the user may still enter; else all of this ticket's connections end."""
        try:
            await self._house.check(ticket.right, endpoint.owner)
        except (NotAllowed, NotSignedIn):
            self._tickets.revoke(ticket=ticket)
            for tunnel in [one for one in endpoint.tunnels if one.ticket is ticket]:
                tunnel.abort()
            return False
        except JumarError as error:
            # The database is away: nothing is known now.
            log.warning("cannot look whether %s may use an endpoint: %s", ticket.user, error)
            return True
        ticket.checked_at = time.monotonic()
        return True

    async def _accept(
        self, given: Endpoint | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        _watch_for_life(writer)
        limit_s = _LINGER_S
        try:
            if len(self._serving) > MOST_CONNECTIONS and not self._make_room():
                raise BadHead("too many connections", 503)
            await self._visit(given, (reader, writer))
            limit_s = _TAKING_LIMIT_S
        except BadHead as error:
            await _tell((reader, writer), own_answer(error.status, str(error)))
        except (Gone, OSError):
            pass
        except asyncio.CancelledError:
            # The server ends; asyncio would complain about a task that it has made itself.
            writer.transport.abort()
        finally:
            await _hang_up(writer, limit_s)
            self._serving.discard(task)

    def _make_room(self) -> bool:
        for silent in self._silent:
            if silent:
                oldest = next(iter(silent))
                del silent[oldest]
                oldest.transport.abort()
                return True
        return False

    async def _visit(self, given: Endpoint | None, browser: Streams) -> None:
        request = await self._next(browser, is_known=False)
        while await self._serve(given, request, browser):
            request = await self._next(browser, is_known=True)

    async def _next(self, browser: Streams, *, is_known: bool) -> RequestHead:
        silent = self._silent[1 if is_known else 0]
        silent[browser[1]] = None
        try:
            return await read_request(browser[0], KEEP_S if is_known else HEAD_LIMIT_S)
        except BadHead as error:
            if is_known and error.status == 408:
                raise Gone from error
            raise
        finally:
            silent.pop(browser[1], None)

    async def _serve(self, given: Endpoint | None, request: RequestHead, browser: Streams) -> bool:
        """Answer a request; whether there may be another one."""
        endpoint = self._addressed(request, given)
        if request.path == ENTER:
            await _tell(browser, await self._admit(request, endpoint))
            return False
        ticket = self._tickets.of(request.cookies(endpoint.cookie), endpoint.label)
        friends = {urlsplit(endpoint.home).netloc.lower()}
        is_foreign = foreign_source(request, friends)
        is_page = request.method == "GET" and not request.is_websocket
        if ticket is None or (is_foreign and is_page):
            to_the_job = own_answer(
                303, "Open it from the page of the job.", ("Location", endpoint.home)
            )
            denied = own_answer(401, "Not signed in to this endpoint.")
            await _tell(browser, to_the_job if is_page else denied)
            return False
        if is_foreign:
            raise BadHead("requests sent by another web site are refused", 403)
        if request.first("service-worker") is not None and not self._place.wildcard:
            # It would outlive the job in the browser, and be there for whoever gets this port next.
            raise BadHead("service workers are not possible on a port", 403)
        if ticket.is_due and not await self.check(endpoint, ticket):
            raise BadHead("not allowed any more", 403)
        return await self._pass_on(endpoint, ticket, request, browser)

    def _addressed(self, request: RequestHead, given: Endpoint | None) -> Endpoint:
        try:
            host = urlsplit(f"//{request.host}").hostname or ""
        except ValueError:
            host = ""
        if given is not None:
            if self._house.find(given.label) is not given:
                # It was closed while this connection was open.
                raise Gone
            if host not in given.hosts and not _is_loopback(host):
                raise BadHead("this endpoint does not have that name", 421)
            return given
        domain = (urlsplit(self._place.wildcard).hostname or "").removeprefix("*")
        found = self._house.find(host.removesuffix(domain)) if host.endswith(domain) else None
        if found is None:
            raise BadHead("no such endpoint is open; open it from the page of the job", 404)
        return found

    async def _admit(self, request: RequestHead, endpoint: Endpoint) -> bytes:
        """Take a code for a cookie."""
        codes = parse_qs(request.target.partition("?")[2]).get("code", [])
        value = self._tickets.redeem(codes[0], endpoint.label) if codes else None
        if value is None:
            words = "This link has been used, or is too old. Open the endpoint from the page of the job."
            return own_answer(403, words)
        await self._house.note()
        secure = "; Secure" if self._place.scheme == "https" else ""
        return own_answer(
            303,
            "Welcome.",
            ("Location", "/"),
            ("Set-Cookie", f"{endpoint.cookie}={value}; Path=/; HttpOnly; SameSite=Lax{secure}"),
            # What a job that had this origin before has left in the browser.
            ("Clear-Site-Data", '"cache", "storage"'),
            ("Referrer-Policy", "no-referrer"),
        )

    async def _pass_on(
        self, endpoint: Endpoint, ticket: Ticket, request: RequestHead, browser: Streams
    ) -> bool:
        try:
            made = await (await self._house.linked(endpoint)).connect(endpoint.wish)
        except JumarError as error:
            raise BadHead(error.message, 502 if isinstance(error, Conflict) else 504) from error
        job = await asyncio.open_connection(sock=made, limit=MOST_HEAD_BYTES)
        tunnel = Tunnel(ticket, (browser[1], job[1]))
        endpoint.tunnels.add(tunnel)
        exchange = Exchange(request, browser, job)
        try:
            keeps_nothing = not self._place.wildcard
            return await exchange.run(scheme=self._place.scheme, keeps_nothing=keeps_nothing)
        except BadHead:
            if not exchange.has_answered:
                raise
            return False
        finally:
            endpoint.tunnels.discard(tunnel)
            endpoint.used_at = time.monotonic()
            job[1].transport.abort()


def _watch_for_life(writer: asyncio.StreamWriter) -> None:
    opened: socket.socket | None = writer.get_extra_info("socket")
    if opened is None or opened.family == socket.AF_UNIX:
        return
    with contextlib.suppress(OSError):
        # Who is gone without a word is noticed after some minutes, however long a websocket is silent.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _ALIVE_AFTER_S)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _ALIVE_EVERY_S)


async def _tell(browser: Streams, answer: bytes) -> None:
    reader, writer = browser
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            writer.write(answer)
            await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
                # What is still on its way to us would have the answer thrown away there.
                while await reader.read(_BLOCK):
                    pass


async def _hang_up(writer: asyncio.StreamWriter, limit_s: float) -> None:
    writer.close()
    with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(limit_s):
            await writer.wait_closed()
    writer.transport.abort()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
