"""The images that jobs may name."""

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.server.edge.auth import Member
from jumar.server.edge.exchange import answer
from jumar.server.edge.site import SiteOf
from jumar.spec.records import ImageRecord

router = APIRouter(tags=["server"])


@router.get("/images", response_model=list[ImageRecord], summary="Images for jobs")
async def images(site: SiteOf, _user: Member) -> Response:
    """Those that the server's machine has, of podman and docker."""
    return answer(await run_in_threadpool(site.images))
