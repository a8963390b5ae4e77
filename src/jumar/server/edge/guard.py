"""The outermost layer: what no request may do, and headers that every answer carries.

It refuses strange hosts (DNS rebinding), requests sent by other web sites, large and slow bodies, and
text that cannot be kept; it turns an unexpected error into an answer that tells nothing of the
inside. A small body is whole before any route is asked, so no route waits for a slow client."""

import logging
from collections.abc import MutableMapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jumar.errors import BadInput, JumarError, NotAllowed, ServerFailed
from jumar.server.edge.bodies import paced, whole
from jumar.server.edge.exchange import error_answer
from jumar.server.edge.site import API
from jumar.server.edge.words import check_address, check_body

log = logging.getLogger(__name__)

# They count what they take themselves.
_LARGE = (f"{API}/code/", f"{API}/restore")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_DATA_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # "no-referrer" would make browsers send "Origin: null" with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, *, loopback_only: bool) -> None:
        self._app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, pass on, and watch the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope, send)
        try:
            headers = Headers(scope=scope)
            host = _host(headers)
            if self._loopback_only:
                check_host(host)
            if scope["method"] not in _SAFE_METHODS:
                check_origin(headers)
            check_address(scope["path"], scope["query_string"])
            receive = paced(receive)
            if not scope["path"].startswith(_LARGE):
                body, receive = await whole(receive, headers)
                if body:
                    check_body(body, headers)
            await self._app(scope, receive, answer.send)
        except ClientDisconnect:
            # Nobody is left to be answered.
            return
        except JumarError as error:
            await error_answer(error)(scope, receive, answer.send)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if answer.started:
                raise
            unexpected = ServerFailed("the server failed", hint="its log says more: server.log")
            await error_answer(unexpected)(scope, receive, answer.send)


class _Answer:
    """Adds headers to an answer on its way out."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._policy = _DATA_POLICY if scope["path"].startswith(API) else _PAGE_POLICY
        self._send = send
        self.started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=_with_headers(message))
            headers.setdefault("Content-Security-Policy", self._policy)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


def _with_headers(message: Message) -> MutableMapping[str, Any]:
    message.setdefault("headers", [])
    return message


def _host(headers: Headers) -> str:
    # Read for every request: addresses that answers quote are made from it.
    return _parts(f"//{headers.get('host', '')}").hostname or ""


def check_host(host: str) -> None:
    """A page of another site whose name was bent to 127.0.0.1 sends its own name here."""
    if host != "localhost" and not _is_loopback(host):
        raise BadInput(
            f"this server answers as localhost only, not as {host!r}",
            hint="to serve a network, set JUMAR_HOST to an address of this machine",
        )


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


def check_origin(headers: Headers) -> None:
    """Browsers say where a request comes from; programs send neither header."""
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    foreign = origin is not None and _parts(origin).netloc != headers.get("host")
    if foreign or site not in (None, "same-origin", "none"):
        raise NotAllowed("a request sent from another web site was refused")
