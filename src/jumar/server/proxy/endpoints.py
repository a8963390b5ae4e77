"""The endpoints of running jobs that are open now: where each listens, who may enter, and when it ends.

Each is an origin of its own, because a browser lets pages of one origin do all in it: a host name below
a wildcard, or else a port. All of it is used by the server's event loop only."""

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import parse_qs, urlsplit

from jumar.errors import Conflict, JumarError, NotAllowed, NotSignedIn, Unavailable
from jumar.launch.node.side import PROGRAM
from jumar.server.proxy.heads import MOST_HEAD_BYTES, BadHead, RequestHead, foreign_source
from jumar.server.proxy.link import Link
from jumar.server.proxy.tickets import Ticket, Tickets
from jumar.server.proxy.tunnel import Exchange, Gone, own_answer, read_request
from jumar.spec.endpoints import port_of

log = logging.getLogger(__name__)

ENTER = "/_jumar/enter"
MOST_TUNNELS = 4096
MOST_PER_USER = 64
"""Endpoints of one user that are open at the same time."""
_BACKLOG = 1024
_LINGER_S = 2.0
_TAKING_LIMIT_S = 60.0
"""For a slow reader to take what is left of an answer."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where endpoints are reached."""

    address: str = "127.0.0.1"
    """What to listen on."""
    ports: range = range(0)
    """Empty: any that is free."""
    wildcard: str = ""
    """`https://*.jobs.example.org`, all of which comes to the first of the ports; empty: a port each."""
    tls: ssl.SSLContext | None = None
    idle_s: float = 3600.0


@dataclass(eq=False)
class Endpoint:
    """One that is open."""

    job_id: str
    owner: str
    name: str
    label: str
    """Its part of a host name."""
    link: Link | None = None
    port: int = 0
    listening: asyncio.Server | None = None
    hosts: set[str] = field(default_factory=set[str])
    """By which names of this machine it has been opened."""
    home: str = ""
    """Where the job's page is."""
    tunnels: "set[Tunnel]" = field(default_factory=lambda: set[Tunnel]())
    used_at: float = field(default_factory=time.monotonic)

    @property
    def cookie(self) -> str:
        return f"jumar_endpoint_{self.label}"

    @property
    def wish(self) -> str | int:
        """What its host is asked to connect to."""
        return port_of(self.name) or PROGRAM


@dataclass(eq=False)
class Tunnel:
    """A connection that goes through."""

    ticket: Ticket
    writers: tuple[asyncio.StreamWriter, ...]

    def abort(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class Endpoints:
    """All of one server."""

    def __init__(self, place: Place | None = None) -> None:
        self._place = place or Place()
        self._tickets = Tickets()
        self._open: dict[str, Endpoint] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._shared: asyncio.Server | None = None
        self._look: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen where all endpoints have one address."""
        if self._place.wildcard:
            self._shared = await self._listen(
                None, self._place.ports[0] if self._place.ports else 0
            )

    def of(self, job_id: str) -> list[Endpoint]:
        """Those of a job."""
        return [one for one in self._open.values() if one.job_id == job_id]

    async def open(
        self, job_id: str, owner: str, name: str, start: Callable[[str], socket.socket]
    ) -> Endpoint:
        """The endpoint, opened if it is not. `start`: of a host beside the job; it may wait."""
        label = f"{job_id}-{port_of(name) or name}"
        async with self._opening.setdefault(label, asyncio.Lock()):
            found = self._open.get(label)
            if found is None:
                self._check_room(owner)
                found = Endpoint(job_id, owner, name, label)
                await self._begin(found, start)
            found.used_at = time.monotonic()
            return found

    def _check_room(self, owner: str) -> None:
        if sum(one.owner == owner for one in self._open.values()) >= MOST_PER_USER:
            raise Conflict(
                f"{MOST_PER_USER} endpoints of {owner}'s jobs are open", hint="close some of them"
            )

    async def _begin(self, endpoint: Endpoint, start: Callable[[str], socket.socket]) -> None:
        stream = await asyncio.to_thread(start, endpoint.job_id)
        endpoint.link = Link(stream, partial(self._ended, endpoint))
        self._open[endpoint.label] = endpoint
        try:
            await endpoint.link.begin(endpoint.name)
            if not self._place.wildcard:
                await self._listen_alone(endpoint)
            if endpoint.label not in self._open:
                raise Conflict("the job has ended")
        except BaseException:
            self.close(endpoint)
            if endpoint.listening is not None:
                # It had ended already, before there was anything to close.
                endpoint.listening.close()
            raise

    def enter(
        self, endpoint: Endpoint, user: str, host: str, home: str, check: Callable[[], None]
    ) -> str:
        """An address that lets one browser in, once. `host`: the name by which `user` reaches this machine;
        `home`: where the pages are, for those who have lost their way in."""
        endpoint.home = f"{home}/jobs/{endpoint.job_id}"
        endpoint.hosts.add(host.lower())
        code = self._tickets.code_for(user, endpoint.label, check)
        return f"{self.origin(endpoint, host)}{ENTER}?code={code}"

    def origin(self, endpoint: Endpoint, host: str) -> str:
        """Its scheme, host and port."""
        if self._place.wildcard:
            return self._place.wildcard.replace("*", endpoint.label).rstrip("/")
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self._place.tls else 'http'}://{shown}:{endpoint.port}"

    def close(self, endpoint: Endpoint) -> None:
        """End it, and all that was started for it."""
        if endpoint.link is not None:
            endpoint.link.close()
        self._ended(endpoint, "")

    async def close_all(self) -> None:
        """The server ends."""
        for endpoint in list(self._open.values()):
            self.close(endpoint)
        if self._shared is not None:
            self._shared.close()
        for task in [*self._serving, *([self._look] if self._look else [])]:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _ended(self, endpoint: Endpoint, why: str) -> None:
        if self._open.get(endpoint.label) is not endpoint:
            return
        del self._open[endpoint.label]
        if why:
            log.info("endpoint %s of job %s ended: %s", endpoint.name, endpoint.job_id, why)
        self._tickets.revoke(lambda ticket: ticket.endpoint == endpoint.label)
        if endpoint.listening is not None:
            endpoint.listening.close()
        for tunnel in list(endpoint.tunnels):
            tunnel.abort()

    def sweep(self) -> None:
        """Every second: end what idles, and look whether users may still do what they do."""
        latest = time.monotonic() - self._place.idle_s
        for endpoint in list(self._open.values()):
            if endpoint.tunnels:
                endpoint.used_at = time.monotonic()
            elif endpoint.used_at < latest:
                self.close(endpoint)
        if self._look is None or self._look.done():
            due = {
                tunnel.ticket
                for endpoint in self._open.values()
                for tunnel in endpoint.tunnels
                if tunnel.ticket.is_due
            }
            if due:
                self._look = asyncio.get_running_loop().create_task(self._check_all(due))

    async def _check_all(self, tickets: set[Ticket]) -> None:
        for ticket in tickets:
            await self._check(ticket)

    async def _check(self, ticket: Ticket) -> bool:
        """Whether the user may still enter; else all of this ticket's connections end."""
        try:
            await asyncio.to_thread(ticket.check)
        except (NotAllowed, NotSignedIn):
            self._tickets.revoke(lambda one: one is ticket)
            for endpoint in self._open.values():
                for tunnel in [one for one in endpoint.tunnels if one.ticket is ticket]:
                    tunnel.abort()
            return False
        except JumarError as error:
            # The database is away: nothing is known now.
            log.warning("cannot look whether %s may use an endpoint: %s", ticket.user, error)
            return True
        ticket.checked_at = time.monotonic()
        return True

    async def _listen_alone(self, endpoint: Endpoint) -> None:
        # From a place that only this endpoint begins at, so that it is likely to get its port again.
        ports = list(self._place.ports)
        first = sum(endpoint.label.encode()) * 31 % len(ports) if ports else 0
        for port in [*ports[first:], *ports[:first]] or [0]:
            with contextlib.suppress(OSError):
                endpoint.listening = await self._listen(endpoint, port)
                endpoint.port = endpoint.listening.sockets[0].getsockname()[1]
                return
        raise Unavailable(
            "no port is left for another endpoint",
            hint="close some, or set endpoint_ports to a larger range",
        )

    async def _listen(self, endpoint: Endpoint | None, port: int) -> asyncio.Server:
        return await asyncio.start_server(
            partial(self._accept, endpoint),
            self._place.address,
            port,
            limit=MOST_HEAD_BYTES,
            ssl=self._place.tls,
            backlog=_BACKLOG,
        )

    async def _accept(
        self, endpoint: Endpoint | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            if len(self._serving) > MOST_TUNNELS:
                raise BadHead("too many connections", 503)
            await self._serve(endpoint, reader, writer)
        except BadHead as error:
            await _tell(writer, own_answer(error.status, str(error)))
        except (Gone, OSError):
            pass
        except asyncio.CancelledError:
            # The server ends; asyncio would complain about a task that it has made itself.
            writer.transport.abort()
        finally:
            self._serving.discard(task)
            await _hang_up(writer)

    async def _serve(
        self, given: Endpoint | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        request = await read_request(reader)
        endpoint = self._addressed(request, given)
        if request.path == ENTER:
            await _tell(writer, self._admit(request, endpoint))
            return
        ticket = self._tickets.of(request.cookies(endpoint.cookie), endpoint.label)
        friends = {urlsplit(endpoint.home).netloc.lower()}
        is_foreign = foreign_source(request, friends)
        if ticket is None or (is_foreign and request.method == "GET" and not request.is_websocket):
            to_the_job = own_answer(
                303, "Open it from the page of the job.", ("Location", endpoint.home)
            )
            is_page = request.method == "GET" and not request.is_websocket
            denied = own_answer(401, "Not signed in to this endpoint.")
            await _tell(writer, to_the_job if is_page else denied)
            return
        if is_foreign:
            raise BadHead("requests sent by another web site are refused", 403)
        if request.first("service-worker") is not None and not self._place.wildcard:
            # It would outlive the job in the browser, and be there for whoever gets this port next.
            raise BadHead("service workers are not possible on a port", 403)
        if ticket.is_due and not await self._check(ticket):
            raise BadHead("not allowed any more", 403)
        await self._pass_on(endpoint, ticket, request, (reader, writer))

    def _addressed(self, request: RequestHead, given: Endpoint | None) -> Endpoint:
        try:
            host = urlsplit(f"//{request.host}").hostname or ""
        except ValueError:
            host = ""
        if given is not None:
            if host not in given.hosts and not _is_loopback(host):
                raise BadHead("this endpoint does not have that name", 421)
            return given
        domain = (urlsplit(self._place.wildcard).hostname or "").removeprefix("*")
        found = self._open.get(host.removesuffix(domain)) if host.endswith(domain) else None
        if found is None:
            raise BadHead("no such endpoint is open; open it from the page of the job", 404)
        return found

    def _admit(self, request: RequestHead, endpoint: Endpoint) -> bytes:
        """Take a code for a cookie."""
        codes = parse_qs(request.target.partition("?")[2]).get("code", [])
        value = self._tickets.redeem(codes[0], endpoint.label) if codes else None
        if value is None:
            words = "This link has been used, or is too old. Open the endpoint from the page of the job."
            return own_answer(403, words)
        secure = "; Secure" if self._is_secure else ""
        return own_answer(
            303,
            "Welcome.",
            ("Location", "/"),
            ("Set-Cookie", f"{endpoint.cookie}={value}; Path=/; HttpOnly; SameSite=Lax{secure}"),
            # What a job that had this origin before has left in the browser.
            ("Clear-Site-Data", '"cache", "storage"'),
            ("Referrer-Policy", "no-referrer"),
        )

    @property
    def _is_secure(self) -> bool:
        if self._place.wildcard:
            return self._place.wildcard.startswith("https:")
        return self._place.tls is not None

    async def _pass_on(
        self, endpoint: Endpoint, ticket: Ticket, request: RequestHead, browser: Streams
    ) -> None:
        assert endpoint.link is not None
        try:
            made = await endpoint.link.connect(endpoint.wish)
        except Conflict as error:
            raise BadHead(error.message, 502) from error
        except Unavailable as error:
            raise BadHead(error.message, 504) from error
        job = await asyncio.open_connection(sock=made, limit=MOST_HEAD_BYTES)
        tunnel = Tunnel(ticket, (browser[1], job[1]))
        endpoint.tunnels.add(tunnel)
        exchange = Exchange(request, browser, job)
        try:
            scheme = "https" if self._is_secure else "http"
            await exchange.run(scheme=scheme, keeps_nothing=not self._place.wildcard)
        except BadHead:
            if not exchange.has_answered:
                raise
        finally:
            endpoint.tunnels.discard(tunnel)
            endpoint.used_at = time.monotonic()
            job[1].transport.abort()


async def _tell(writer: asyncio.StreamWriter, answer: bytes) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            writer.write(answer)
            await writer.drain()
            if writer.can_write_eof():
                # What is still on its way to us would have the answer thrown away there.
                writer.write_eof()


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(_TAKING_LIMIT_S):
            await writer.wait_closed()
    writer.transport.abort()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
