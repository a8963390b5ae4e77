"""The client that a command uses; starts the home's own server when no other is configured."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from socket import gethostname
from urllib.parse import urlsplit

from jumar.cli.output import note
from jumar.client import Client
from jumar.client.config import Address, find, required
from jumar.errors import ServerUnreachable
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


@contextmanager
def connected() -> Generator[Client]:
    """A client for one command."""
    with connect().client as client:
        yield client


def connect(before_start: Callable[[], None] | None = None) -> Connected:
    """A client of the configured server, or of the home's own, started if it is down.

    `before_start` is called before a server is started; its exceptions are passed on."""
    settings = load()
    address = find(settings)
    if address is not None and not address.embedded:
        client = Client(address.url, address.token)
        return Connected(client, on_this_machine=_is_here(client))
    client = _reached(settings, address)
    if client is None:
        if before_start is not None:
            before_start()
        client = _started(settings)
    return Connected(client, on_this_machine=True)


def _reached(settings: Settings, address: Address | None) -> Client | None:
    # Without a live process, whatever listens at the old address is something else.
    if address is None or server_process(settings.home) is None:
        return None
    client = Client(address.url, address.token, patience_s=_RESTART_S)
    try:
        client.reach()
    except ServerUnreachable:
        return None
    return client


def _started(settings: Settings) -> Client:
    from jumar.server.process.manage import running, start_detached

    if running(settings) is None:
        info = start_detached(settings)
        note(f"started the server of {settings.home} at {info.url} (stop it: jumar down)")
    address = required(settings)
    return Client(address.url, address.token, patience_s=_RESTART_S)


def _is_here(client: Client) -> bool:
    """Whether the server is on this machine; a loopback address may also be the end of a tunnel."""
    place = urlsplit(client.url)
    # Over ssh one may be another user there, with other files.
    is_near = place.scheme == "unix" or (place.scheme != "ssh" and place.hostname in _LOOPBACK)
    return is_near and client.server().name == gethostname()
