"""What jobs and people use, over REST."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.server.api.jobs import MOST_NUMBER
from jumar.server.edge.auth import Member, SeenJob
from jumar.server.edge.exchange import answer
from jumar.server.edge.site import SiteOf
from jumar.spec.usage import JobUsage, UsedBy

router = APIRouter(tags=["usage"])
MOST_DAYS = 366


@router.get("/jobs/{job}/usage", response_model=JobUsage, summary="What a job uses")
async def job_usage(
    opened: SeenJob,
    site: SiteOf,
    seen: Annotated[
        int | None, Query(ge=0, le=MOST_NUMBER, description="`revision` of the answer before")
    ] = None,
) -> Response:
    """CPU, memory and the cards of a job, while it runs and afterwards. With `seen`, 204 when nothing
    is new."""
    found = await run_in_threadpool(site.service.sampler.of, opened.id)
    return Response(status_code=204) if seen == found.revision else answer(found)


@router.get("/usage", response_model=list[UsedBy], summary="Who used how much")
async def usage(
    site: SiteOf, _user: Member, days: Annotated[int, Query(ge=1, le=MOST_DAYS)] = 7
) -> Response:
    """Card-seconds of each user by kind of card, today and in the days before."""
    return answer(await run_in_threadpool(site.service.used, days))
