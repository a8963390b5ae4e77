"""Serving in this process: the home is locked, the services are opened, uvicorn runs."""

import asyncio
import contextlib
import getpass
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, cast

import uvicorn

from jumar.database.access import open_database
from jumar.errors import HomeUnusable
from jumar.hub.collecting import Nightly
from jumar.hub.hub import Hub
from jumar.jobs.service import JobService
from jumar.launch.processes.descriptors import raise_limit
from jumar.notify.notices import Notices
from jumar.notify.sending import Sender
from jumar.notify.webhooks import Webhooks
from jumar.people.accounts import Accounts
from jumar.root.program import Site as RootSite
from jumar.server.api.s3 import admit_users, door_of_site
from jumar.server.api.watching import Watch
from jumar.server.app import create_app
from jumar.server.edge.auth import check_still_allowed
from jumar.server.edge.site import Site
from jumar.server.home import (
    STARTED_WITH,
    locked,
    my_identity,
    prepare_home,
    read_json,
    write_json,
    write_private,
)
from jumar.server.modelarts.chores import Chores
from jumar.server.process.connections import Connections, WatchedProtocol, room_for_connections
from jumar.server.process.encrypted import EncryptedPort
from jumar.server.process.endpoint_place import place_of_endpoints
from jumar.server.process.engines import engines_of
from jumar.server.process.from_settings import (
    VERSION,
    hub_limits,
    hub_of_jobs,
    job_limits,
    oidc_of,
    read_root_site,
    server_info,
    sweep_plan,
    unix_people,
    upstream_of,
)
from jumar.server.process.listen import Listener, listen, listen_for_ssh, listen_to_people
from jumar.server.proxy.endpoints import Endpoints
from jumar.settings import Settings
from jumar.spec.records import ServerInfo
from jumar.store.users import UserStores
from jumar.tls import server_context

if TYPE_CHECKING:
    from jumar.server.ssh.port import SshDoor

log = logging.getLogger(__name__)

GRACEFUL_S = 3
# uvicorn's ticks are a tenth of a second.
_TICKS_PER_SWEEP = 10
Ready = Callable[[ServerInfo], None]


def serve_until_told(settings: Settings, on_ready: Ready = lambda info: None) -> None:
    """Serve until SIGTERM or SIGINT. Running jobs go on without it."""
    raise_limit()
    prepare_home(settings.home)
    with locked(settings.home):
        listener = listen(settings)
        shared = read_root_site(settings)
        people = [] if shared is None else listen_to_people([shared.run, shared.job_run])
        with contextlib.ExitStack() as opened:
            for one in (listener.socket, *people):
                opened.enter_context(one)
            ssh = _ssh_door(settings, listener)
            if ssh is not None:
                opened.enter_context(ssh.socket)
            site = opened.enter_context(_site(settings, listener, shared, ssh))
            server = SiteServer(site, listener, ssh=ssh)
            _run(server, site.info, people, settings, on_ready)


@contextlib.contextmanager
def _site(
    settings: Settings, listener: Listener, shared: RootSite | None, ssh: "SshDoor | None"
) -> Generator[Site]:
    stores = UserStores(settings.home, owner=_user_name() if shared is None else "")
    database = open_database(settings.database)
    unix = None if shared is None else unix_people(settings, database, shared)
    hub = Hub(database, settings.home, hub_limits(settings), upstream_of(settings))
    engines = engines_of(
        settings, stores, shared, unix, hub_of_jobs(settings, listener, hub), hub.tree_of
    )
    accounts = Accounts(database)
    sender = Sender()
    notices = Notices(
        Webhooks(settings.home),
        sender,
        partial(_admins, accounts),
        (settings.public_url or listener.url).rstrip("/"),
    )
    service = JobService(
        database=database,
        engine=engines,
        home=settings.home,
        limits=job_limits(settings),
        half_life_days=settings.half_life_days,
        keep_days=settings.keep_days,
        sweep=sweep_plan(settings),
        # Where nobody has a webhook, nobody looks whether there is something to tell.
        on_news=lambda job: notices.job_news(job.summary()) if notices.webhooks.all else None,
        on_warning=notices.sweep_ahead,
        other_bytes=hub.used_bytes,
    )
    hub.repositories.quota.others = service.disk.beside_repositories
    try:
        if shared is None:
            _write_client(settings.home, accounts, listener)
        with door_of_site(settings, accounts, listener.certificate) as door:
            engines.prepare()
            sender.start()
            hub.prepare()
            service.start()
            site = Site(
                service=service,
                accounts=accounts,
                unix=unix,
                stores=stores,
                notices=notices,
                hub=hub,
                door=door,
                images=engines.images,
                loopback_only=listener.loopback_only,
                endpoints=Endpoints(place_of_endpoints(settings, listener)),
                public_url=settings.public_url,
                oidc=oidc_of(settings, accounts, database),
                info=replace(
                    server_info(settings, listener, ssh, engines),
                    s3_port=0 if door is None else door.port,
                    keeping=service.retention.keeping,
                ),
            )
            if unix is not None:
                unix.on_new = partial(admit_users, site)
            nightly = Nightly(hub.collector, settings.home)
            with Chores(site).rounds, nightly.rounds, Watch(site).rounds:
                yield site
    finally:
        service.close()
        sender.close()


def _admins(accounts: Accounts) -> set[str]:
    return {user.name for user in accounts.users() if user.role == "admin"}


def _write_client(home: Path, accounts: Accounts, listener: Listener) -> None:
    """What commands of this user sign in with; the token of an earlier start is kept."""
    path = home / "client.json"
    token = read_json(path).get("token")
    if not isinstance(token, str) or accounts.tokens.user_of(token) is None:
        token = accounts.bootstrap(_user_name())
    trust = {"trust": listener.trust} if listener.trust else {}
    write_json(path, {"url": listener.url, "token": token, **trust})


def _user_name() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = ""
    return re.sub(r"[^a-zA-Z0-9._-]", "-", name).strip("._-")[:64] or "admin"


def _ssh_door(settings: Settings, listener: Listener) -> "SshDoor | None":
    opened = listen_for_ssh(settings, listener)
    if opened is None:
        return None
    # Late: most servers have no such port, and the library takes a moment.
    try:
        from jumar.server.hub.git_ssh import GitChannel
        from jumar.server.ssh.port import SshDoor, host_key
    except ImportError as error:
        raise HomeUnusable(
            f"an SSH port needs asyncssh: {error}", hint="pip install 'jumar[ssh]'"
        ) from error
    return SshDoor(host_key(settings.home), opened, GitChannel)


def _run(
    server: "SiteServer",
    info: ServerInfo,
    people: list[socket.socket],
    settings: Settings,
    on_ready: Ready,
) -> None:
    home = settings.home

    def ready() -> None:
        told: dict[str, object] = {"url": info.url, "version": VERSION, "engine": info.engine}
        told["settings"] = {name: getattr(settings, name) for name in STARTED_WITH}
        write_json(home / "server.json", {**told, **my_identity()})
        log.info("serving %s at %s", home, info.url)
        on_ready(info)

    server.on_ready = ready
    write_private(home / "server.pid", f"{os.getpid()}\n")
    try:
        with _signals(server.handle_exit):
            server.run(people)
    finally:
        (home / "server.pid").unlink(missing_ok=True)
        (home / "server.json").unlink(missing_ok=True)
    log.info("ended; running jobs go on")


class SiteServer(uvicorn.Server):
    """uvicorn that tells when it answers, and tells endless answers when it ends."""

    def __init__(self, site: Site, listener: Listener, *, ssh: "SshDoor | None" = None) -> None:
        self._connections = Connections(room_for_connections())
        config = uvicorn.Config(
            create_app(site),
            http=cast("type[asyncio.Protocol]", partial(WatchedProtocol, self._connections)),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            # Who asks is the socket's peer: headers could name a new address with every guess.
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=GRACEFUL_S,
        )
        super().__init__(config)
        self._site = site
        self._listener = listener
        self._port: EncryptedPort | None = None
        self._ssh = ssh
        self.on_ready: Callable[[], None] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        port, certificate = self._listener.socket, self._listener.certificate
        await super().startup([*(sockets or ()), *(() if certificate else (port,))])
        self._loop = asyncio.get_running_loop()
        if certificate is not None:
            context = server_context(certificate)
            self._port = EncryptedPort(port, context, self._protocol, self._connections)
        site = self._site
        await site.endpoints.start(site.service.start_beside, partial(check_still_allowed, site))
        if self._ssh is not None:
            await self._ssh.start(self._site)
        self.on_ready()

    def _protocol(self) -> WatchedProtocol:
        return WatchedProtocol(
            self._connections, self.config, self.server_state, self.lifespan.state
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._port is not None:
            self._port.close()
        if self._ssh is not None:
            self._ssh.close()
        await self._site.endpoints.close_all()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_PER_SWEEP == 0:
            self._connections.sweep()
            if self._site.endpoints.opened:
                self._site.endpoints.sweep()
        return await super().on_tick(counter)

    def end(self) -> None:
        """Answer what was asked, then end. Safe from threads and signal handlers."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._site.closing.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn takes a second signal as "at once"; ending is bounded anyway.
        self.end()


@contextlib.contextmanager
def _signals(handler: Callable[[int, FrameType | None], None]) -> Generator[None]:
    # uvicorn raises the signals it caught once more when it has ended; without a handler here
    # that would end the process before jobs and files are let go of.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
