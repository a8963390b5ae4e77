"""How a server is reached: directly, or through the site's proxy as the environment names it."""

import os
from base64 import b64encode
from ipaddress import ip_address, ip_network
from typing import List, Mapping, NamedTuple, Optional, Tuple
from urllib.parse import unquote, urlsplit

_LOCAL_NAMES = ("localhost", "ip6-localhost")


class Proxy(NamedTuple):
    """An HTTP proxy; its password is only in the header that it is sent with."""

    host: str
    port: int
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.host!r}, {self.port})"

    @property
    def headers(self) -> List[Tuple[str, str]]:
        """What a request to the proxy carries."""
        return [("proxy-authorization", self.authorization)] if self.authorization else []


class ProxyRefused(ConnectionError):
    """The proxy answered and would not connect; asking again does not help."""


def proxy_for(
    host: str, port: int, *, secure: bool, environ: Optional[Mapping[str, str]] = None
) -> Optional[Proxy]:
    """The proxy for a server; None to connect directly. Raises ValueError for one of another kind."""
    variables = os.environ if environ is None else environ
    names = ("https_proxy" if secure else "http_proxy", "all_proxy")
    address = next(filter(None, (_either(variables, name) for name in names)), "")
    if not address or _is_local(host) or _is_excepted(host, port, _either(variables, "no_proxy")):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(
            f"the proxy {parts.scheme}://{parts.hostname or ''} cannot be used: only http:// ones can"
        )
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + b64encode(pair.encode("utf-8")).decode("ascii")
    return Proxy(parts.hostname, parts.port or 80, authorization)


def _either(environ: Mapping[str, str], name: str) -> str:
    """Both spellings are in use; curl and Python prefer the small one."""
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _is_local(host: str) -> bool:
    """The built-in store is on this machine, which no proxy reaches."""
    if host in _LOCAL_NAMES:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    for entry in filter(None, (word.strip().lower() for word in exceptions.split(","))):
        if entry == "*":
            return True
        name, _, wanted = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
        if wanted and wanted != str(port):
            continue
        suffix = name.lstrip("*").lstrip(".")
        if host.lower() == suffix or host.lower().endswith(f".{suffix}") or _is_in(host, name):
            return True
    return False


def _is_in(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
