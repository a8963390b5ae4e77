"""The endpoints of running jobs that are open now: where each listens, and when it ends.

Each is an origin of its own, because a browser lets pages of one origin do all in it: a host name below
a wildcard, or else a port. They outlive the server: what is open is written down, and the next server
opens it again at the same address. All of it is used by the server's event loop only."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from jumar.errors import Conflict, JumarError, Unavailable
from jumar.people.rights import Right
from jumar.server.proxy.book import Book
from jumar.server.proxy.endpoint import Endpoint, Place
from jumar.server.proxy.link import Link
from jumar.server.proxy.port import Port
from jumar.server.proxy.tickets import Ticket, Tickets
from jumar.server.proxy.visits import ENTER, Visits
from jumar.spec.endpoints import flaw_of_endpoint

log = logging.getLogger(__name__)

MOST_PER_USER = 64
"""Endpoints of one user that are open at the same time."""
_RESTORED_AT_ONCE = 4
StartHost = Callable[[str], socket.socket]
Check = Callable[[Right, str], None]


class Endpoints:
    """All of one server."""

    def __init__(self, place: Place | None = None) -> None:
        self._place = place or Place()
        self._tickets = Tickets()
        self._visits = Visits(self._place, self._tickets, self)
        self._book = Book(self._place.book, self._as_json)
        self.opened: dict[str, Endpoint] = {}
        self._shared: Port | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._look: asyncio.Task[None] | None = None
        self._start_host: StartHost | None = None
        self._check: Check | None = None

    async def start(self, start_host: StartHost, check: Check) -> None:
        """Open again what was open, and listen where all endpoints have one address.

        `start_host`: of a host beside a job. `check`: see `House.check`. Both may wait, and are called in
        threads."""
        self._start_host, self._check = start_host, check
        if self._place.wildcard:
            port = self._place.ports[0] if self._place.ports else 0
            self._shared = self._visits.listen(None, port)
        for values in self._book.read():
            try:
                self._restore(values)
            except (KeyError, TypeError, ValueError, Unavailable) as error:
                log.warning("an endpoint is not opened again: %r", error)
        if self.opened:
            self._later(self._find_again(list(self.opened.values())))

    def of(self, job_id: str) -> list[Endpoint]:
        """Those of a job."""
        return [one for one in self.opened.values() if one.job_id == job_id]

    def find(self, label: str) -> Endpoint | None:
        """One that is open."""
        return self.opened.get(label)

    async def open(self, job_id: str, owner: str, name: str) -> Endpoint:
        """The endpoint, opened if it is not; Conflict, Unavailable."""
        wanted = Endpoint(job_id, owner, name)
        found = self.opened.get(wanted.label)
        if found is None:
            self._check_room(owner)
            found = self.opened[wanted.label] = wanted
        try:
            await self.linked(found)
        except JumarError:
            if found is wanted:
                self.close(found)
            raise
        found.used_at = time.monotonic()
        await self._book.write()
        return found

    def _check_room(self, owner: str) -> None:
        if sum(one.owner == owner for one in self.opened.values()) >= MOST_PER_USER:
            raise Conflict(
                f"{MOST_PER_USER} endpoints of {owner}'s jobs are open", hint="close some of them"
            )

    async def linked(self, endpoint: Endpoint) -> Link:
        """The way to its host, which is found again or started; Conflict, Unavailable."""
        async with endpoint.linking:
            if self.opened.get(endpoint.label) is not endpoint:
                raise Conflict("the endpoint was closed")
            if endpoint.link is not None:
                return endpoint.link
            if endpoint.listening is None and not self._place.wildcard:
                self._listen(endpoint)
            assert self._start_host is not None
            stream = await asyncio.to_thread(self._start_host, endpoint.job_id)
            link = Link(stream, partial(self._ended, endpoint))
            try:
                await link.begin(endpoint.name, self._place.idle_s if endpoint.has_program else 0.0)
            except BaseException:
                link.close()
                raise
            if self.opened.get(endpoint.label) is not endpoint:
                link.close()
                raise Conflict("the endpoint was closed")
            endpoint.link = link
            return link

    def _listen(self, endpoint: Endpoint) -> None:
        # From a place that only this endpoint begins at, so that it is likely to get its port again.
        ports = list(self._place.ports)
        first = sum(endpoint.label.encode()) * 31 % len(ports) if ports else 0
        before = [endpoint.port] if endpoint.port else []
        for port in [*before, *ports[first:], *ports[:first], *([] if ports else [0])]:
            with contextlib.suppress(OSError):
                endpoint.listening = self._visits.listen(endpoint, port)
                endpoint.port = endpoint.listening.number
                return
        raise Unavailable(
            "no port is left for another endpoint",
            hint="close some, or set endpoint_ports to a larger range",
        )

    def enter(self, endpoint: Endpoint, user: str, right: Right, host: str, home: str) -> str:
        """An address that lets one browser in, once. `host`: the name by which `user` reaches this machine;
        `home`: where the pages are, for those who have lost their way in."""
        endpoint.home = f"{home}/jobs/{endpoint.job_id}"
        endpoint.add_host(host.lower())
        code = self._tickets.code_for(user, endpoint.label, right)
        return f"{self.origin(endpoint, host)}{ENTER}?code={code}"

    def origin(self, endpoint: Endpoint, host: str) -> str:
        """Its scheme, host and port."""
        if self._place.wildcard:
            return self._place.wildcard.replace("*", endpoint.label).rstrip("/")
        shown = f"[{host}]" if ":" in host else host
        return f"{self._place.scheme}://{shown}:{endpoint.port}"

    def close(self, endpoint: Endpoint) -> None:
        """End it, and all that was started for it."""
        if endpoint.link is not None:
            endpoint.link.close()
        self._ended(endpoint, "")

    async def close_all(self) -> None:
        """The server ends; hosts wait for the next one."""
        await self._book.close()
        known = list(self.opened.values())
        self.opened.clear()
        for endpoint in known:
            if endpoint.link is not None:
                endpoint.link.close(leaves=True)
            self._let_go(endpoint)
        if self._shared is not None:
            self._shared.close()
        tasks = [*self._tasks, *([self._look] if self._look else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._visits.close()

    def _ended(self, endpoint: Endpoint, why: str) -> None:
        if self.opened.get(endpoint.label) is not endpoint:
            return
        del self.opened[endpoint.label]
        if why:
            log.info("endpoint %s of job %s ended: %s", endpoint.name, endpoint.job_id, why)
        self._tickets.revoke(endpoint=endpoint.label)
        self._let_go(endpoint)
        self._later(self._book.write())

    @staticmethod
    def _let_go(endpoint: Endpoint) -> None:
        if endpoint.listening is not None:
            endpoint.listening.close()
        for tunnel in list(endpoint.tunnels):
            tunnel.abort()

    def sweep(self) -> None:
        """Every second: end what idles, and look whether users may still do what they do."""
        latest = time.monotonic() - self._place.idle_s
        for endpoint in list(self.opened.values()):
            if endpoint.tunnels or endpoint.linking.locked():
                endpoint.used_at = time.monotonic()
            elif endpoint.used_at < latest:
                self.close(endpoint)
        if self._look is None or self._look.done():
            due = {
                tunnel.ticket: endpoint
                for endpoint in self.opened.values()
                for tunnel in endpoint.tunnels
                if tunnel.ticket.is_due
            }
            if due:
                self._look = asyncio.get_running_loop().create_task(self._check_all(due))

    async def _check_all(self, due: dict[Ticket, Endpoint]) -> None:
        for ticket, endpoint in due.items():
            await self._visits.check(endpoint, ticket)

    async def check(self, right: Right, owner: str) -> None:
        """NotSignedIn or NotAllowed once who asked may no longer open jobs of `owner`."""
        assert self._check is not None
        await asyncio.to_thread(self._check, right, owner)

    async def note(self) -> None:
        """Write down who is in."""
        await self._book.write()

    def _as_json(self) -> list[dict[str, Any]]:
        return [
            {**one.as_json(), "tickets": self._tickets.as_json(one.label)}
            for one in self.opened.values()
        ]

    def _restore(self, values: dict[str, Any]) -> None:
        endpoint = Endpoint.from_json(values)
        if flaw_of_endpoint(endpoint.name) is not None:
            raise ValueError(endpoint.name)
        if not self._place.wildcard:
            # Before anybody else takes it; browsers are trying all the time.
            self._listen(endpoint)
        self._tickets.restore(endpoint.label, values["tickets"])
        self.opened[endpoint.label] = endpoint

    async def _find_again(self, known: list[Endpoint]) -> None:
        """Find the hosts of endpoints that an earlier server had opened, some at a time."""
        room = asyncio.Semaphore(_RESTORED_AT_ONCE)

        async def one(endpoint: Endpoint) -> None:
            async with room:
                try:
                    await self.linked(endpoint)
                except JumarError as error:
                    log.info("endpoint %s of job %s: %s", endpoint.name, endpoint.job_id, error)
                    # If that may pass, the next visitor tries again.
                    if not error.is_passing:
                        self.close(endpoint)

        await asyncio.gather(*map(one, known))

    def _later(self, what: "Coroutine[Any, Any, None]") -> None:
        task = asyncio.get_running_loop().create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
