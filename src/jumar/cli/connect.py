"""The client that a command uses; starts the home's own server when no other is configured."""

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from socket import gethostname
from urllib.parse import urlsplit

from jumar.cli.output import note
from jumar.client import Client
from jumar.client.config import Address, find, required
from jumar.errors import BadInput, ServerUnreachable
from jumar.server.home import server_process
from jumar.settings import Settings, load

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_RESTART_S = 30.0
"""How long a command waits for the home's own server if it goes away in the meantime."""


@dataclass(frozen=True, slots=True)
class Connected:
    """A server that answers."""

    client: Client
    on_this_machine: bool
    """Whether jobs run on this machine, so that its paths and variables are valid for them."""
    usual_engine: str | None = None
    """Where jobs run that ask for none, if that is known already."""
    runs_on: str | None = None
    """The engine that was asked for."""

    @property
    def engine(self) -> str:
        """Where the job runs."""
        return self.runs_on or self.usual_engine or self.client.server().engine


@contextmanager
def connected() -> Generator[Client]:
    """A client for one command."""
    with connect().client as client:
        yield client


def connect(
    before_start: Callable[[], None] | None = None,
    engine: str | None = None,
    login: str | None = None,
) -> Connected:
    """A client of the configured server, or of the home's own, started if it is down; where jobs go to
    Slurm and no server runs, none is started.

    `before_start` is called before a server is started; its exceptions are passed on. `engine`: where
    jobs shall run, if that matters; `login`: over which login node, if it is Slurm."""
    settings = load()
    address = find(settings)
    login = _login(settings, address, engine, login)
    if login is not None:
        from jumar.direct.far_client import FarClient

        return Connected(FarClient(settings.home, login), on_this_machine=False)
    made = _connect(settings, address, before_start, engine)
    if engine is None:
        return made
    info = made.client.server()
    offered = info.engines or (info.engine,)
    if engine not in offered:
        both = ",".join((*offered, engine))
        raise BadInput(
            f"the server {made.client.url} runs jobs on {', '.join(offered)}, not on {engine}",
            hint=f"leave --engine out, or have it offer both: jumar down; JUMAR_ENGINE={both} jumar up -d",
        )
    return replace(made, runs_on=engine)


def _connect(
    settings: Settings,
    address: Address | None,
    before_start: Callable[[], None] | None,
    engine: str | None,
) -> Connected:
    if address is not None and not address.embedded:
        return _configured(Client(address))
    # Without a live process, whatever listens at the old address is something else.
    process = None if address is None else server_process(settings.home)
    if address is not None and process is not None:
        client = Client(address, patience_s=_RESTART_S)
        with suppress(ServerUnreachable):
            client.reach()
            return Connected(client, on_this_machine=True, usual_engine=process.engine)
    if _is_direct(settings, engine):
        # Late: who uses a server need not load it.
        from jumar.direct.client import DirectClient

        return Connected(DirectClient(settings.home), on_this_machine=True)
    if before_start is not None:
        before_start()
    client = _started(settings if engine is None else _with_engine(settings, engine))
    return Connected(client, on_this_machine=True)


def _login(
    settings: Settings, address: Address | None, engine: str | None, login: str | None
) -> str | None:
    """The login node that jobs go over, of who has no cluster here."""
    if (engine or _first(settings)) == "slurm" and (login or settings.slurm_ssh):
        return login or settings.slurm_ssh
    has_others = address is not None or (settings.home / "slurm" / "jobs").is_dir()
    if engine is not None or has_others or not (settings.home / "slurm-ssh").is_dir():
        return None
    from jumar.direct.far_client import last_login

    return last_login(settings.home)


def _is_direct(settings: Settings, engine: str | None) -> bool:
    """Whether jobs are handed to Slurm by this very command, and looked after by nobody."""
    if engine is not None or _first(settings) != "local":
        # Who has set up several wants them in one list.
        return (engine or _first(settings)) == "slurm" and len(settings.engines) == 1
    return (settings.home / "slurm" / "jobs").is_dir() and not (settings.home / "jumar.db").exists()


def _first(settings: Settings) -> str:
    return next(iter(settings.engines), "local")


def _with_engine(settings: Settings, engine: str) -> Settings:
    """A server that is started for one job keeps its usual place for the others."""
    return replace(settings, engine=",".join(dict.fromkeys((*settings.engines, engine))))


def _started(settings: Settings) -> Client:
    from jumar.server.process.manage import running, start_detached

    if running(settings) is None:
        info = start_detached(settings)
        note(f"started the server of {settings.home} at {info.url} (stop it: jumar down)")
    address = required(settings)
    return Client(address, patience_s=_RESTART_S)


def _configured(client: Client) -> Connected:
    """A server that may be on this machine; a loopback address may also be the end of a tunnel."""
    place = urlsplit(client.url)
    # Over ssh one may be another user there, with other files.
    is_near = place.scheme == "unix" or (place.scheme != "ssh" and place.hostname in _LOOPBACK)
    if not is_near:
        return Connected(client, on_this_machine=False)
    info = client.server()
    is_here = info.name == gethostname()
    return Connected(client, on_this_machine=is_here, usual_engine=info.engine)
