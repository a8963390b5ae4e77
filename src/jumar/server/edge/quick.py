"""Routes that open pages ask again and again, of jobs that run: who asks and the job are at hand then, and
the framework's way to a route's arguments would take longer than the answer.

A quick answer is what the route itself would give. Whatever is not plainly the usual question goes to the route:
strangers, links, names instead of ids, jobs that do not run, arguments that it does not expect."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from jumar.jobs.rows import JobRow
from jumar.server.edge.auth import may_open, token_of
from jumar.server.edge.requests import whole_number
from jumar.server.edge.site import Site, site_of

Quick = Callable[[Request, Site, JobRow], Awaitable[Response | None]]
_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def quick_route(quick: Quick) -> type[APIRoute]:
    """The class of routes whose path names a `job`; `quick` gives None where the route has to answer."""

    class QuickRoute(APIRoute):
        def get_route_handler(self) -> _Handler:
            usual = super().get_route_handler()

            async def handler(request: Request) -> Response:
                site = site_of(request)
                row = _row_at_hand(request, site)
                answer = None if row is None else await quick(request, site, row)
                return await usual(request) if answer is None else answer

            return handler

    return QuickRoute


def _row_at_hand(request: Request, site: Site) -> JobRow | None:
    """The job of the path, for a member who may open it."""
    row = site.service.at_hand(request.path_params.get("job", ""))
    if row is None:
        return None
    user = site.accounts.tokens.known_user_of(token_of(request))
    if user is None or user.role not in ("member", "admin") or not may_open(user, row.user):
        return None
    request.state.user = user.name
    return row


def plain_query(request: Request, *names: str) -> dict[str, str] | None:
    """The arguments, if there are none but these, each once."""
    pairs = request.query_params.multi_items()
    found = dict(pairs)
    return found if len(found) == len(pairs) and found.keys() <= set(names) else None


def number_in(found: dict[str, str], name: str, *, usual: int | None, most: int) -> int | None:
    """An argument that is a number; ValueError where it is none that the route takes."""
    if name not in found:
        return usual
    number = whole_number(found[name], most=most)
    if number is None:
        raise ValueError(name)
    return number
