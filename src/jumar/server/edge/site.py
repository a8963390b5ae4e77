"""What every route stands on: the services of one server, handed around as one record."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from jumar.hub.hub import Hub
from jumar.jobs.service import JobService
from jumar.notify.notices import Notices
from jumar.people.accounts import Accounts
from jumar.people.oidc import Oidc
from jumar.people.unix import UnixPeople
from jumar.server.edge.patience import Patience
from jumar.server.edge.sessions import Sessions
from jumar.server.edge.uploads import Uploads
from jumar.server.proxy.endpoints import Endpoints
from jumar.spec.records import ImageRecord, ServerInfo
from jumar.store.door import Door
from jumar.store.users import UserStores

API = "/api/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One server: what it serves and who may ask."""

    service: JobService
    accounts: Accounts
    stores: UserStores
    hub: Hub
    info: ServerInfo
    notices: Notices
    unix: UnixPeople | None = None
    """Who callers on this machine are, where it is a site for many people."""
    door: Door | None = None
    """The S3 door, where the built-in store is behind one."""
    loopback_only: bool
    """Whether it listens on this machine only; then strange Host headers are refused."""
    patience: Patience = field(default_factory=Patience)
    uploads: Uploads = field(default_factory=Uploads)
    images: Callable[[], tuple[ImageRecord, ...]] = tuple
    """What `GET /images` gives."""
    sessions: Sessions = field(default_factory=Sessions)
    endpoints: Endpoints = field(default_factory=Endpoints)
    oidc: Oidc | None = None
    """Where people may sign in besides here."""
    public_url: str = ""
    """Where people reach the pages, where that is not where the server listens."""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server is asked to end: endless answers end by themselves."""

    @property
    def pages(self) -> str:
        """Where people reach the pages, as far as that is known without a request."""
        return (self.public_url or self.info.url).rstrip("/")


def site_of(connection: HTTPConnection) -> Site:
    """The site that a request or a websocket came to."""
    site = connection.app.state.site
    assert isinstance(site, Site)
    return site


async def _site_of(connection: HTTPConnection) -> Site:
    # Not the plain function: the framework would take a thread for it, with every request.
    return site_of(connection)


SiteOf = Annotated[Site, Depends(_site_of)]
