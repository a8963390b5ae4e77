"""Where requests to the hub go. Routed on the path as it was sent: a branch `dev/x` comes as `dev%2Fx`."""

import logging

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from jumar.errors import JumarError, PathNotFound, ServerFailed
from jumar.hub.gitting import GitFailed
from jumar.hub.names import Kind
from jumar.hub.repositories import RepoNotFound
from jumar.server.edge.site import Site
from jumar.server.hub import git_http, hf_api, lfs, resolve, upstream, xet
from jumar.server.hub.call import Call, split_kind
from jumar.server.hub.errors import refuse
from jumar.server.hub.git_service import SERVICES

log = logging.getLogger(__name__)
PREFIXES = ("/git", "/hf")


class HubDoor:
    """An ASGI application for `/git` and `/hf`: the same repositories, under both."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise PathNotFound("the hub speaks HTTP only")
        call = Call(self._site, scope, receive, send)
        try:
            await _route_or_ask(call)
        except ClientDisconnect:
            # Nobody is left to be answered.
            return
        except JumarError as error:
            if isinstance(error, GitFailed):
                log.warning("%s: git said: %s", scope["path"], error.said)
            if call.answered:
                raise ServerFailed("an answer of the hub was cut") from error
            await refuse(call, error)


async def _route_or_ask(call: Call) -> None:
    """What does not exist here may exist on the site's upstream."""
    try:
        await _route(call)
    except (RepoNotFound, PathNotFound) as error:
        if call.answered:
            raise
        await upstream.serve(call, error)


async def _route(call: Call) -> None:
    match call.parts:
        case ["lfs", repo_id, oid, size, *rest]:
            # Their links are signed; no token comes with them.
            await lfs.transfer(call, repo_id, oid, size, rest)
        case ["xet", repo_id, session, *rest]:
            await xet.serve(call, repo_id, session, rest)
        case ["api", *rest]:
            await call.sign_in()
            await hf_api.serve(call, rest)
        case parts:
            await _route_into(call, *split_kind(parts))


async def _route_into(call: Call, kind: Kind, parts: list[str]) -> None:
    match parts:
        case [owner, name, "info", "refs"]:
            await git_http.serve(call, kind, owner, name, ["info", "refs"])
        case [owner, name, service] if service in SERVICES:
            await git_http.serve(call, kind, owner, name, [service])
        case [owner, name, "info", "lfs", *rest]:
            await lfs.serve(call, kind, owner, name.removesuffix(".git"), rest)
        case [owner, name, "resolve" | "raw", revision, *path] if path:
            await call.sign_in()
            await resolve.serve(call, kind, owner, name, revision, "/".join(path))
        case _:
            raise PathNotFound("the hub has no such path")
