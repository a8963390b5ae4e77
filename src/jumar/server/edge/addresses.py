"""By which address whoever asks reaches the pages: links in answers have to lead there."""

import re
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from jumar.server.edge.auth import peer_of
from jumar.server.edge.site import Site

_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


def pages_at(site: Site, connection: HTTPConnection) -> str:
    """The public address, if there is one; else the one that the request came to, to us or to a proxy
    before us: who lies gets links that are of no use to them."""
    if site.public_url:
        return site.pages
    headers = connection.headers
    host = _first(headers.get("x-forwarded-host")) or headers.get("host", "")
    if peer_of(connection) is not None or not _names_a_host(host):
        return site.info.url
    scheme = _first(headers.get("x-forwarded-proto")) or connection.url.scheme
    return f"{'https' if scheme == 'https' else 'http'}://{host}"


def host_of(address: str) -> str:
    """The host name in an address."""
    return urlsplit(address).hostname or ""


def _first(value: str | None) -> str:
    """What the outermost of several proxies has said."""
    return (value or "").partition(",")[0].strip()


def _names_a_host(host: str) -> bool:
    try:
        # Its port is looked at when it is asked for.
        return _HOST.fullmatch(host) is not None and urlsplit(f"//{host}").port != 0
    except ValueError:
        return False
