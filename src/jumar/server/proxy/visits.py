"""Connections of browsers to endpoints: who is let in, and what is passed on.

A connection carries one request after the other, each judged for itself. When there are too many, those
go that have asked for nothing, strangers first: whoever came first cannot keep everybody else out."""

import asyncio
import contextlib
import ipaddress
import logging
import socket
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from jumar.errors import Conflict, JumarError, NotAllowed, NotSignedIn
from jumar.people.rights import Right
from jumar.server.proxy.endpoint import Endpoint, Place, Tunnel
from jumar.server.proxy.heads import MOST_HEAD_BYTES, BadHead, RequestHead, foreign_source
from jumar.server.proxy.link import Link
from jumar.server.proxy.port import Port, streams_of
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
_LINGER_S = 2.0
_TAKING_LIMIT_S = 60.0
"""For a slow reader to take what is left of an answer."""
_BLOCK = 1 << 16


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
        self._silent: tuple[dict[object, Callable[[], None]], ...] = ({}, {})
        """Those that ask for nothing now, the oldest first: strangers, and who has been let in."""

    def listen(self, endpoint: Endpoint | None, port: int) -> Port:
        """Take connections at a port: for one endpoint, or for the one that a request names; OSError."""
        return Port(self._place.address, port, partial(self._accept, endpoint))

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

    def _accept(self, given: Endpoint | None, opened: socket.socket) -> None:
        task = asyncio.get_running_loop().create_task(self._welcome(given, opened))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _welcome(self, given: Endpoint | None, opened: socket.socket) -> None:
        try:
            is_room = len(self._serving) <= MOST_CONNECTIONS or self._make_room()
            with self._silence(partial(_cut, opened), is_known=False):
                browser = await streams_of(opened, self._place.tls)
        except OSError:
            # Strangers break off, speak something else, or do not trust us: nothing to note.
            return
        limit_s = _LINGER_S
        try:
            if not is_room:
                raise BadHead("too many connections", 503)
            await self._visit(given, browser)
            limit_s = _TAKING_LIMIT_S
        except BadHead as error:
            await _tell(browser, own_answer(error.status, str(error)))
        except (Gone, OSError):
            pass
        except asyncio.CancelledError:
            browser[1].transport.abort()
            raise
        finally:
            await _hang_up(browser[1], limit_s)

    @contextlib.contextmanager
    def _silence(self, cut: Callable[[], None], *, is_known: bool) -> Generator[None]:
        """A connection on which nothing is asked for now; `cut` ends it to make room for others."""
        silent, key = self._silent[1 if is_known else 0], object()
        silent[key] = cut
        try:
            yield
        finally:
            silent.pop(key, None)

    def _make_room(self) -> bool:
        for silent in self._silent:
            if silent:
                silent.pop(next(iter(silent)))()
                return True
        return False

    async def _visit(self, given: Endpoint | None, browser: Streams) -> None:
        request = await self._next(browser, is_known=False)
        while await self._serve(given, request, browser):
            request = await self._next(browser, is_known=True)

    async def _next(self, browser: Streams, *, is_known: bool) -> RequestHead:
        try:
            with self._silence(browser[1].transport.abort, is_known=is_known):
                return await read_request(browser[0], KEEP_S if is_known else HEAD_LIMIT_S)
        except BadHead as error:
            if is_known and error.status == 408:
                raise Gone from error
            raise

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


def _cut(opened: socket.socket) -> None:
    with contextlib.suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)


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
