"""Groups, shares and use over REST."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.server.edge.auth import Admin, Member
from jumar.server.edge.exchange import Body, answer
from jumar.server.edge.site import SiteOf
from jumar.spec.shares import GroupRecord, ShareReport

router = APIRouter(tags=["groups"])


class NewGroup(Body):
    """A group to be made."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    share: float = 1.0


class ShareChange(Body):
    """Another share of the site."""

    share: float


class Membership(Body):
    """A user's share of the group; None keeps it, or is 1 for who is new in the group."""

    share: float | None = None


@router.get("/share", response_model=ShareReport, summary="Who has used what, and who is next")
async def share(site: SiteOf, _user: Member) -> Response:
    """Use of each user by kind of card, as it counts for whose turn is next."""
    return answer(await run_in_threadpool(site.service.share))


@router.get("/groups", response_model=list[GroupRecord], summary="List groups")
async def list_groups(site: SiteOf, _user: Member) -> Response:
    """Every group with its share of the site, and everybody in it with their share of the group."""
    return answer(await run_in_threadpool(site.service.groups.all))


@router.post("/groups", status_code=201, response_model=GroupRecord, summary="Make a group")
async def create_group(site: SiteOf, _admin: Admin, wanted: NewGroup) -> Response:
    """A group with nobody in it."""
    made = await run_in_threadpool(site.service.groups.create, wanted.name, wanted.share)
    return answer(made, 201)


@router.patch("/groups/{name}", response_model=GroupRecord, summary="Change a group's share")
async def set_share(site: SiteOf, _admin: Admin, name: str, change: ShareChange) -> Response:
    """Counts from the next turn on."""
    return answer(await run_in_threadpool(site.service.groups.set_share, name, change.share))


@router.delete("/groups/{name}", status_code=204, summary="Remove a group")
async def delete_group(site: SiteOf, _admin: Admin, name: str) -> Response:
    """Whoever is in it goes back to the group `default`, which cannot be removed."""
    await run_in_threadpool(site.service.groups.delete, name)
    return Response(status_code=204)


@router.put(
    "/groups/{name}/members/{user}", response_model=GroupRecord, summary="Put a user into a group"
)
async def add_member(
    site: SiteOf, _admin: Admin, name: str, user: str, wanted: Membership
) -> Response:
    """Everybody is in one group: the user leaves the one they were in."""
    add = site.service.groups.add
    return answer(await run_in_threadpool(add, name, user, wanted.share))


@router.delete(
    "/groups/{name}/members/{user}",
    response_model=GroupRecord,
    summary="Take a user out of a group",
)
async def remove_member(site: SiteOf, _admin: Admin, name: str, user: str) -> Response:
    """The user is in the group `default` again."""
    return answer(await run_in_threadpool(site.service.groups.remove, name, user))
