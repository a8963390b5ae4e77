"""Redirects of the other hub to somebody else: followed into the open network, never into the site's own.

The name is looked up once, so that the address which was judged is the one that is spoken to."""

import http.client
import ipaddress
import socket
import ssl
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from jumar.errors import Unavailable

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class Stay(urllib.request.HTTPRedirectHandler):
    """Redirects are followed by hand: each is judged, and the token is for one place only."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def is_same_place(one: str, other: str) -> bool:
    """Whether two addresses are of the same server, spoken to in the same way."""
    mine, theirs = urlsplit(one), urlsplit(other)
    return (mine.scheme, mine.netloc) == (theirs.scheme, theirs.netloc)


def opener_for(url: str, upstream: str) -> urllib.request.OpenerDirector:
    """What opens `url`, to which `upstream` has redirected; Unavailable where nobody should."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    if parts.scheme in proxies and not urllib.request.proxy_bypass(parts.hostname or ""):
        # Names are the proxy's business; an address can be judged all the same.
        if _is_inside_by_name(parts.hostname or ""):
            raise _refused(parts.hostname)
        return urllib.request.build_opener(Stay())
    near = not _all_global(urlsplit(upstream).hostname or "")
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), _Plain(near), _Encrypted(near), Stay()
    )


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, near: bool) -> None:
        super().__init__()
        self._near = near

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        near = self._near

        class Connection(http.client.HTTPConnection):
            def connect(self) -> None:
                self.sock = _connected(self.host, self.port, self.timeout, near)

        return self.do_open(Connection, req)


class _Encrypted(urllib.request.HTTPSHandler):
    def __init__(self, near: bool) -> None:
        super().__init__()
        self._near = near

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        near = self._near

        class Connection(http.client.HTTPSConnection):
            def connect(self) -> None:
                wire = _connected(self.host, self.port, self.timeout, near)
                context = ssl.create_default_context()
                self.sock = context.wrap_socket(wire, server_hostname=self.host)

        return self.do_open(Connection, req)


def _connected(host: str, port: int, limit_s: float | None, near: bool) -> socket.socket:
    failed: Exception = _refused(host)
    for address in _addresses(host, port):
        if not _is_allowed(_carried(address), near):
            continue
        try:
            return socket.create_connection((str(address), port), timeout=limit_s)
        except OSError as error:
            # A name may have addresses that are not reached from here: often those of IPv6.
            failed = error
    raise failed


def _is_allowed(address: _Address, near: bool) -> bool:
    """`near`: the other hub is itself in the site's network, so its stores may be there too. But what listens
    only for this machine, or on the link, is never meant."""
    if address.is_global:
        return True
    return near and address.is_private and not (
        address.is_loopback or address.is_link_local or address.is_unspecified
    )  # fmt: skip


def _addresses(host: str, port: int | None) -> list[_Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def _carried(address: _Address) -> _Address:
    """The IPv4 address that one of IPv6 leads to, where it is made of one; else itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _all_global(host: str) -> bool:
    try:
        return all(_carried(one).is_global for one in _addresses(host, None))
    except OSError:
        return True


def _is_inside_by_name(host: str) -> bool:
    try:
        return not _carried(ipaddress.ip_address(host)).is_global
    except ValueError:
        return host.lower().rstrip(".").endswith("localhost")


def _refused(host: str | None) -> Unavailable:
    return Unavailable(
        f"the other hub redirects to {str(host)[:100]}, which is inside this site's network",
        hint="an administrator should look at JUMAR_HUB_UPSTREAM",
    )
