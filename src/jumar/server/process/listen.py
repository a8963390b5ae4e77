"""Where the server listens: the port it gets and the address others reach it by."""

import contextlib
import errno
import ipaddress
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from jumar.errors import HomeUnusable
from jumar.server.home import read_json
from jumar.server.process.certificate import certificate_of
from jumar.settings import Settings
from jumar.tls import Certificate, server_context

USUAL_PORT = 7420
SOCKET_NAME = "jumar.sock"
JOB_FOLDER = "-job"
"""How the folder of the socket for jobs ends: calls through it have a member's rights."""
_BACKLOG = 2048


@dataclass(frozen=True, slots=True)
class Listener:
    """An open socket and how to reach it."""

    socket: socket.socket
    url: str
    loopback_only: bool
    certificate: Certificate | None = None
    """Of one that speaks TLS."""

    @property
    def trust(self) -> str:
        """The certificate that it shows; empty without TLS."""
        return "" if self.certificate is None else self.certificate.text()


def listen(settings: Settings) -> Listener:
    """Listen on the port of the settings, else the last one, else the usual, else any."""
    ports = [settings.port] if settings.port else [_last_port(settings.home), USUAL_PORT, 0]
    family, address = _resolve(settings.host)
    certificate = certificate_of(settings)
    if certificate is not None:
        # Before anything is started: it may be unfit.
        server_context(certificate)
    for port in ports:
        opened = _bind(family, address, port)
        if opened is not None:
            url = _url(opened, "http" if certificate is None else "https")
            here = ipaddress.ip_address(address).is_loopback
            return Listener(opened, url, here, certificate)
    raise HomeUnusable(
        f"port {settings.port} is in use on {settings.host}",
        hint="set JUMAR_PORT to another port, or to 0 for any free one",
    )


def listen_for_ssh(settings: Settings, listener: Listener) -> socket.socket | None:
    """Listen on the port for SSH, if there is to be one, beside the port of the server."""
    if not settings.ssh_port:
        return None
    opened = _bind(listener.socket.family, str(listener.socket.getsockname()[0]), settings.ssh_port)
    if opened is None:
        raise HomeUnusable(
            f"port {settings.ssh_port} is in use on {settings.host}",
            hint="give another port for SSH: jumar up --ssh PORT",
        )
    return opened


def listen_to_people(folders: Sequence[str]) -> list[socket.socket]:
    """Unix sockets for everybody on this machine: the kernel says who calls."""
    made: list[socket.socket] = []
    for folder in folders:
        path = os.path.join(folder, SOCKET_NAME)
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.append(opened)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            opened.bind(path)
            os.chmod(path, 0o666)
            opened.listen(_BACKLOG)
        except OSError as error:
            for one in made:
                one.close()
            raise HomeUnusable(
                f"cannot listen on {path}: {error.strerror}", hint="see: jumar site status"
            ) from error
    return made


def _last_port(home: Path) -> int:
    # Clients, and pages that are open, find the next server where the last one was.
    try:
        return urlsplit(str(read_json(home / "client.json").get("url", ""))).port or USUAL_PORT
    except ValueError:
        return USUAL_PORT


def _resolve(host: str) -> tuple[socket.AddressFamily, str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise HomeUnusable(
            f"cannot listen on {host!r}: {error}", hint="set JUMAR_HOST to an address"
        ) from error
    family, _, _, _, address = found[0]
    return family, str(address[0])


def _bind(family: socket.AddressFamily, address: str, port: int) -> socket.socket | None:
    """A listening socket; None when the port is taken."""
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((address, port))
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise HomeUnusable(
            f"cannot listen on {address} port {port}: {error.strerror}",
            hint="set JUMAR_HOST and JUMAR_PORT to an address and a port of this machine",
        ) from error
    return opened


def _url(opened: socket.socket, scheme: str) -> str:
    address, port = opened.getsockname()[:2]
    shown = ipaddress.ip_address(address)
    if shown.is_unspecified:
        # It listens everywhere; from here it is reached by the loopback address.
        shown = ipaddress.ip_address("127.0.0.1" if shown.version == 4 else "::1")
    return f"{scheme}://[{shown}]:{port}" if shown.version == 6 else f"{scheme}://{shown}:{port}"
