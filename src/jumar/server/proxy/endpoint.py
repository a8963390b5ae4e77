"""One endpoint of a running job that is open, and where endpoints are reached."""

import asyncio
import ssl
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from jumar.launch.node.side import PROGRAM
from jumar.server.proxy.link import Link
from jumar.server.proxy.port import Port
from jumar.server.proxy.tickets import Ticket
from jumar.spec.endpoints import PROGRAMS, port_of

_MOST_HOSTS = 32


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
    book: Path | None = None
    """Where the open ones are written down."""

    @property
    def scheme(self) -> str:
        """As browsers see it."""
        is_secure = self.wildcard.startswith("https:") if self.wildcard else self.tls is not None
        return "https" if is_secure else "http"


@dataclass(eq=False)
class Endpoint:
    """One that is open."""

    job_id: str
    owner: str
    name: str
    link: Link | None = None
    """None: its host has to be found again, or started."""
    port: int = 0
    listening: Port | None = None
    hosts: dict[str, None] = field(default_factory=dict[str, None])
    """By which names of this machine it has been opened."""
    home: str = ""
    """Where the job's page is."""
    tunnels: "set[Tunnel]" = field(default_factory=lambda: set[Tunnel]())
    used_at: float = field(default_factory=time.monotonic)
    linking: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def label(self) -> str:
        """Its part of a host name."""
        return f"{self.job_id}-{port_of(self.name) or self.name}"

    @property
    def cookie(self) -> str:
        return f"jumar_endpoint_{self.label}"

    @property
    def wish(self) -> str | int:
        """What its host is asked to connect to."""
        return port_of(self.name) or PROGRAM

    @property
    def has_program(self) -> bool:
        """Whether there is something to lose when its host ends."""
        return self.name in PROGRAMS

    def add_host(self, host: str) -> None:
        """It is reached by one more name."""
        self.hosts.pop(host, None)
        self.hosts[host] = None
        if len(self.hosts) > _MOST_HOSTS:
            del self.hosts[next(iter(self.hosts))]

    def as_json(self) -> dict[str, Any]:
        """For a file."""
        names = ("job_id", "owner", "name", "port", "home")
        return {name: getattr(self, name) for name in names} | {"hosts": list(self.hosts)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """What `as_json` gave; KeyError, TypeError, ValueError."""
        return cls(
            str(values["job_id"]),
            str(values["owner"]),
            str(values["name"]),
            port=int(values["port"]),
            home=str(values["home"]),
            hosts={str(host): None for host in values["hosts"]},
        )


@dataclass(eq=False)
class Tunnel:
    """A request that goes through."""

    ticket: Ticket
    writers: tuple[asyncio.StreamWriter, ...]

    def abort(self) -> None:
        """Cut it off, on both sides."""
        for writer in self.writers:
            writer.transport.abort()
