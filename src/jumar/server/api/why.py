"""Why a job failed, over REST."""

from functools import partial

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter
from starlette.responses import Response

from jumar.server.edge.auth import OpenedJob
from jumar.server.edge.exchange import answer
from jumar.server.edge.site import SiteOf
from jumar.spec.verdicts import Verdict

router = APIRouter(tags=["jobs"], prefix="/jobs/{job}/why")
judging = CapacityLimiter(4)
"""Whoever waits for a place waits long, and must not take the threads of all other pages."""


@router.get("", response_model=Verdict, summary="Why a job failed")
async def why(opened: OpenedJob, site: SiteOf) -> Response:
    """The first fault in the job's logs: whose it is, the lines that show it, and what to do.

    `whose` is `unknown` where they do not tell."""
    told = partial(site.service.why, opened.id, with_code=True)
    return answer(await to_thread.run_sync(told, limiter=judging))
