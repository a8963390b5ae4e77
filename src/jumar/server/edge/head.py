"""The head of a request or of a websocket handshake: how large it may be, from where it may come.

Strange hosts (DNS rebinding) and other web sites are refused, and text that cannot be kept."""

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from jumar.errors import BadInput, HeadTooLarge, NotAllowed
from jumar.server.edge.words import check_address

MOST_HEAD_BYTES = 64 << 10


def check_head(scope: Scope, *, loopback_only: bool, may_change: bool) -> Headers:
    """The headers, if the head is one that this server takes.

    `may_change`: whether the browser of a user who is signed in could change something by it."""
    headers = Headers(scope=scope)
    size = sum(len(name) + len(value) for name, value in headers.raw)
    if size + len(scope["raw_path"]) + len(scope["query_string"]) > MOST_HEAD_BYTES:
        raise HeadTooLarge(f"address and headers are larger than {MOST_HEAD_BYTES} bytes")
    # Read for every request: addresses that answers quote are made from it.
    host = _parts(f"//{headers.get('host', '')}").hostname or ""
    if loopback_only:
        _check_host(host)
    if may_change:
        _check_origin(headers)
    check_address(scope["path"], scope["query_string"])
    return headers


def _check_host(host: str) -> None:
    """A page of another site whose name was bent to 127.0.0.1 sends its own name here."""
    if host != "localhost" and not _is_loopback(host):
        raise BadInput(
            f"this server answers to localhost only, not to {host!r}",
            hint="to serve a network, set JUMAR_HOST to an address of this machine",
        )


def _check_origin(headers: Headers) -> None:
    """Browsers say where a request comes from; programs send neither header."""
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    foreign = origin is not None and _parts(origin).netloc != headers.get("host")
    if foreign or site not in (None, "same-origin", "none"):
        raise NotAllowed("requests sent by another web site are refused")


def _parts(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError as error:
        raise BadInput(f"{address[:100]!r} is not an address") from error


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
