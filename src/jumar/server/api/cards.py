"""The cards over REST: which there are and who holds them."""

from dataclasses import replace

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.server.edge.auth import Member
from jumar.server.edge.exchange import answer
from jumar.server.edge.site import SiteOf
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
