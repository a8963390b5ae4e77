"""Read-only links to jobs over REST: made, listed, taken back."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import NotAllowed
from jumar.server.edge.addresses import pages_at
from jumar.server.edge.auth import Member, find_job
from jumar.server.edge.exchange import Body, answer
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.people import LinkRecord, NewLink, UserRecord

router = APIRouter(tags=["links"], prefix="/links")
MOST_JOBS = 16
MOST_DAYS = 3650
_DAY_S = 86_400


class WantedLink(Body):
    """What a link leads to, and for how long."""

    jobs: Annotated[list[str], Field(min_length=1, max_length=MOST_JOBS)]
    days: Annotated[int, Field(ge=0, le=MOST_DAYS)] = 30
    """0: until it is taken back."""


def make_link(
    request: Request, site: Site, user: UserRecord, jobs: list[str], days: int
) -> NewLink:
    """A link to jobs that `user` may open; waits for the database."""
    ids = tuple(dict.fromkeys(find_job(site, job, user).id for job in jobs))
    made = site.accounts.links.new(user.name, ids, days * _DAY_S or None)
    return replace(made, url=f"{pages_at(site, request)}/shared/{made.secret}")


def links_of(site: Site, user: UserRecord, *, everybody: bool = False) -> tuple[LinkRecord, ...]:
    """One's own links; an administrator may see everybody's."""
    if everybody and user.role != "admin":
        raise NotAllowed("only an administrator may see the links of others")
    return site.accounts.links.of(None if everybody else user.name)


def revoke_link(site: Site, user: UserRecord, link: str) -> None:
    """Take a link back; an administrator takes back anybody's."""
    site.accounts.links.revoke(link, user=None if user.role == "admin" else user.name)


@router.post("", status_code=201, response_model=NewLink, summary="Share jobs read-only")
async def create_link(request: Request, site: SiteOf, user: Member, wanted: WantedLink) -> Response:
    """Whoever has the address sees state, metrics, usage and logs of these jobs, without an account."""
    made = await run_in_threadpool(make_link, request, site, user, wanted.jobs, wanted.days)
    return answer(made, 201)


@router.get("", response_model=list[LinkRecord], summary="List links")
async def list_links(
    site: SiteOf, user: Member, everybody: Annotated[bool, Query(alias="all")] = False
) -> Response:
    """Those that are good, newest first."""
    return answer(await run_in_threadpool(links_of, site, user, everybody=everybody))


@router.delete("/{link}", status_code=204, summary="Revoke a link")
async def delete_link(site: SiteOf, user: Member, link: str) -> Response:
    """Whoever looks at the moment is shown nothing more."""
    await run_in_threadpool(revoke_link, site, user, link)
    return Response(status_code=204)
