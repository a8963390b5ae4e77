"""By which address whoever asks reaches the pages: links in answers have to lead there."""

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from jumar.server.edge.auth import peer_of
from jumar.server.edge.site import Site


def pages_at(site: Site, connection: HTTPConnection) -> str:
    """The public address, if there is one; else the one that the request came to, to us or to a proxy
    before us: who lies gets links that are of no use to them."""
    if site.public_url:
        return site.public_url.rstrip("/")
    headers = connection.headers
    host = headers.get("x-forwarded-host") or headers.get("host", "")
    if peer_of(connection) is not None or not _names_a_host(host):
        return site.info.url
    scheme = headers.get("x-forwarded-proto") or connection.url.scheme
    return f"{'https' if scheme == 'https' else 'http'}://{host}"


def host_of(address: str) -> str:
    """The host name in an address."""
    return urlsplit(address).hostname or ""


def _names_a_host(host: str) -> bool:
    try:
        parts = urlsplit(f"//{host}")
        return bool(parts.hostname) and parts.netloc == host and "@" not in host
    except ValueError:
        return False
