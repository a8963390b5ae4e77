"""Read-only links: the page where people make and revoke theirs, and the way in for who was given one."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.errors import NotFound
from jumar.server.api.links import MOST_DAYS, MOST_JOBS, links_of, make_link, revoke_link
from jumar.server.edge.auth import Member, came_over_tls, link_secrets, set_link_cookie
from jumar.server.edge.site import Site, SiteOf
from jumar.server.web.render import render
from jumar.spec.people import NewLink, UserRecord

router = APIRouter()
"""How long a link may be good, on this page; 0 is until it is taken back."""


@router.get("/links")
async def links_page(request: Request, site: SiteOf, user: Member) -> Response:
    """The links that one has given out; an administrator sees everybody's."""
    return await _page(request, site, user)


@router.post("/links")
async def create(
    request: Request,
    site: SiteOf,
    user: Member,
    job: Annotated[list[str], Form(min_length=1, max_length=MOST_JOBS)],
    days: Annotated[int, Form(ge=0, le=MOST_DAYS)] = 30,
) -> Response:
    """Make a link, whose address is in this answer and never shown again."""
    made = await run_in_threadpool(make_link, request, site, user, job, days)
    return await _page(request, site, user, made)


@router.post("/links/{link}/revoke")
async def revoke(site: SiteOf, user: Member, link: str) -> Response:
    """Take a link back."""
    await run_in_threadpool(revoke_link, site, user, link)
    return RedirectResponse("/links", status_code=303)


@router.get("/shared/{secret}")
async def follow(request: Request, site: SiteOf, secret: str) -> Response:
    """Let the browser look at what the link leads to."""
    link = await run_in_threadpool(site.accounts.links.find, secret)
    if link is None:
        raise NotFound("this link was revoked or has expired", hint="ask for a new one")
    query = "&".join(f"job={job}" for job in link.jobs)
    address = f"/jobs/{link.jobs[0]}" if len(link.jobs) == 1 else f"/compare?{query}"
    response = RedirectResponse(address, status_code=303)
    others = [kept for kept in link_secrets(request) if kept != secret]
    set_link_cookie(response, [secret, *others], secure=came_over_tls(request))
    return response


async def _page(
    request: Request, site: Site, user: UserRecord, made: NewLink | None = None
) -> Response:
    everybody = user.role == "admin"
    links = await run_in_threadpool(links_of, site, user, everybody=everybody)
    return render(request, "links.html", {"links": links, "made": made}, user=user)
