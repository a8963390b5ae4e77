"""The cards over REST: which there are, who holds them, and which are kept from being given out."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.server.api.jobs import MOST_NUMBER
from jumar.server.edge.auth import Admin, Member
from jumar.server.edge.exchange import Body, answer
from jumar.server.edge.site import SiteOf
from jumar.spec.devices import CardHold, CardRef
from jumar.spec.records import CardUse, ServerInfo

router = APIRouter(tags=["server"])


@router.get("/server", response_model=ServerInfo, summary="Which server this is")
async def server(site: SiteOf) -> Response:
    """Open to everyone: programs ask it to see whether the server answers."""
    return answer(replace(site.info, trouble=await run_in_threadpool(site.service.trouble)))


@router.get("/cards", response_model=list[CardUse], summary="Cards and who holds them")
async def cards(site: SiteOf, _user: Member) -> Response:
    """Every card and CPU slot that jobs may hold."""
    return answer(await run_in_threadpool(site.service.cards))


class NewHold(Body):
    """Why a card shall not be given out."""

    why: Annotated[str, Field(max_length=500)] = ""


Number = Annotated[int, Path(ge=0, le=MOST_NUMBER)]


@router.put("/cards/{kind}/{node}/{card}/hold", response_model=CardHold, summary="Hold a card")
async def hold_card(
    site: SiteOf, admin: Admin, kind: str, node: str, card: Number, wanted: NewHold
) -> Response:
    """It is given to no job from now on; one that runs on it runs to its end."""
    put = site.service.holds.put
    ref = CardRef(node, card)
    made = await run_in_threadpool(lambda: put(kind, ref, by=admin.name, why=wanted.why.strip()))
    return answer(made)


@router.delete("/cards/{kind}/{node}/{card}/hold", status_code=204, summary="Release a card")
async def release_card(site: SiteOf, _admin: Admin, kind: str, node: str, card: Number) -> Response:
    """Jobs may get it again."""
    await run_in_threadpool(site.service.holds.lift, kind, CardRef(node, card))
    return Response(status_code=204)
