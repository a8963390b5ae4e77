"""The outermost layer: what nobody who connects may do, and headers that every answer carries.

Requests and websocket handshakes are held to the same rules (`head`); large and slow bodies are refused,
and text that cannot be kept; an unexpected error becomes an answer that tells nothing of the inside.
A small body is whole before any route is asked, so no route waits for a slow client. A websocket is
for users who are signed in and approved, whatever its route is. What is neither is refused."""

import logging
import re
from collections.abc import MutableMapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jumar.errors import JumarError, ServerFailed
from jumar.server.edge.auth import member, signed_in
from jumar.server.edge.exchange import error_answer, is_modelarts
from jumar.server.edge.requests import check_body, check_head, paced, whole
from jumar.server.edge.site import API, site_of
from jumar.server.edge.sockets import Bounded, Sockets

log = logging.getLogger(__name__)

# They count what they take themselves.
_HUB = ("/git/", "/hf/")
_LARGE = (f"{API}/code", f"{API}/restore", f"{API}/repo-objects/", *_HUB)
# Questions that are asked with a body, and code, which a submit names.
_CHANGES_NOTHING = ("/submit/check", f"{API}/plans", f"{API}/code", *_HUB)
# What is typed into a shell is its user's own.
_TYPED = re.compile(rf"^{API}/jobs/[^/]+/exec/")
_BAD_REQUEST = 400
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

    def __init__(self, app: ASGIApp, *, loopback_only: bool, public_url: str = "") -> None:
        self._app = app
        self._loopback_only = loopback_only
        self._public_url = public_url
        self._sockets = Sockets()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, pass on, and watch the answer."""
        match scope["type"]:
            case "http":
                await self._request(scope, receive, send)
            case "websocket":
                await self._websocket(scope, receive, send)
            case "lifespan":
                await self._app(scope, receive, send)
            case kind:
                raise ValueError(f"the guard lets nothing through that it does not know: {kind!r}")

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(scope, send)
        try:
            headers = check_head(
                scope,
                loopback_only=self._loopback_only,
                public_url=self._public_url,
                may_change=scope["method"] not in _SAFE_METHODS,
            )
            receive = paced(receive)
            if not scope["path"].startswith(_LARGE):
                body, receive = await whole(receive, headers)
                if body:
                    check_body(body, headers)
            await self._app(scope, receive, answer.send)
            await _note(scope, answer.status)
        except ClientDisconnect:
            # Nobody is left to be answered.
            return
        except JumarError as error:
            await error_answer(error, scope["path"])(scope, receive, answer.send)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if answer.started:
                raise
            unexpected = ServerFailed(
                "the server hit an internal error", hint="see its log: server.log"
            )
            await error_answer(unexpected, scope["path"])(scope, receive, answer.send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        wire = Bounded(receive, send)
        try:
            # A handshake is a GET, and browsers let any page make one with our cookie.
            check_head(
                scope,
                loopback_only=self._loopback_only,
                public_url=self._public_url,
                may_change=True,
            )
            user = await member(await signed_in(HTTPConnection(scope)))
            with self._sockets.place(user.name):
                await self._app(scope, wire.receive, wire.send)
        except JumarError as error:
            await error_answer(error)(scope, wire.receive, wire.send)
        except Exception:
            log.exception("websocket %s failed", scope["path"])
            await wire.close()


async def _note(scope: Scope, status: int) -> None:
    """Write down who changed what, where somebody who is known did."""
    user = scope.get("state", {}).get("user")
    path: str = scope["path"]
    if scope["method"] in _SAFE_METHODS or not user or path.startswith(_CHANGES_NOTHING):
        return
    if status >= _BAD_REQUEST or _TYPED.search(path):
        return
    audit = site_of(HTTPConnection(scope)).accounts.audit
    await run_in_threadpool(audit.note, user=user, method=scope["method"], path=path, status=status)


class _Answer:
    """Adds headers to an answer on its way out."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._policy = (
            _DATA_POLICY
            if scope["path"].startswith((API, *_HUB)) or is_modelarts(scope["path"])
            else _PAGE_POLICY
        )
        self._send = send
        self.started = False
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            headers = MutableHeaders(scope=_with_headers(message))
            headers.setdefault("Content-Security-Policy", self._policy)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


def _with_headers(message: Message) -> MutableMapping[str, Any]:
    message.setdefault("headers", [])
    return message
