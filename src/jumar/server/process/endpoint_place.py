"""Where the endpoints of jobs are reached, as the settings say."""

import re
from urllib.parse import urlsplit

from jumar.errors import BadInput
from jumar.server.process.listen import Listener
from jumar.server.proxy.endpoint import Place
from jumar.settings import Settings
from jumar.tls import server_context

_PORTS = re.compile(r"([1-9][0-9]{0,4})(?:-([1-9][0-9]{0,4}))?")
_LAST_PORT = 65535


def place_of_endpoints(settings: Settings, listener: Listener) -> Place:
    """Beside the server: its address and its certificate; BadInput."""
    _check_address("public_url", settings.public_url)
    _check_address("endpoints_url", settings.endpoints_url)
    if settings.endpoints_url and not settings.endpoints_url.partition("://")[2].startswith("*."):
        raise BadInput(
            f"endpoints_url: {settings.endpoints_url} has no * for the name of an endpoint",
            hint="for example https://*.jobs.example.org",
        )
    certificate = listener.certificate
    return Place(
        address=listener.socket.getsockname()[0],
        ports=_ports(settings.endpoint_ports),
        wildcard=settings.endpoints_url,
        tls=None if certificate is None else server_context(certificate),
        idle_s=float(settings.endpoint_idle_s),
        book=settings.home / "endpoints.json",
    )


def _ports(text: str) -> range:
    if not text:
        return range(0)
    match = _PORTS.fullmatch(text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not first <= last <= _LAST_PORT:
        raise BadInput(
            f"endpoint_ports: {text!r} is not a range of ports", hint="for example 7500-7599"
        )
    return range(first, last + 1)


def _check_address(name: str, address: str) -> None:
    if not address:
        return
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    is_one = parts.scheme in ("http", "https") and bool(parts.hostname)
    if not is_one or parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise BadInput(
            f"{name}: {address!r} is not the address of a server",
            hint="http:// or https://, a host, and a port if need be",
        )
