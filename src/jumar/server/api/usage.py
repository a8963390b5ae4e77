"""What jobs and people use, over REST."""

import threading
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.jobs.rows import JobRow
from jumar.jobs.sampling import Sampler
from jumar.latest import Latest
from jumar.server.api.jobs import MOST_NUMBER, Seen
from jumar.server.edge.auth import Member, SeenJob
from jumar.server.edge.exchange import answer
from jumar.server.edge.quick import number_in, plain_query, quick_route
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.usage import JobUsage, UsedBy

MOST_DAYS = 366
_MOST_ANSWERS = 64


async def _at_once(request: Request, site: Site, row: JobRow) -> Response | None:
    found = plain_query(request, "seen")
    if found is None:
        return None
    try:
        return await _told(site, row.id, number_in(found, "seen", usual=None, most=MOST_NUMBER))
    except ValueError:
        return None


router = APIRouter(tags=["usage"], route_class=quick_route(_at_once))


@router.get("/jobs/{job}/usage", response_model=JobUsage, summary="What a job uses")
async def job_usage(
    opened: SeenJob,
    site: SiteOf,
    seen: Seen = None,
) -> Response:
    """CPU, memory and the cards of a job, while it runs and afterwards. With `seen`, 204 when nothing
    is new."""
    return await _told(site, opened.id, seen)


async def _told(site: Site, job: str, seen: int | None) -> Response:
    found = await run_in_threadpool(_answers.of, site.service.sampler, job)
    if seen == found.revision:
        return Response(status_code=204)
    return Response(found.body, media_type="application/json")


@dataclass(frozen=True, slots=True)
class _Answer:
    mark: object
    revision: int
    body: bytes


class _Answers:
    """The last answers: many people look at the same job, and its samples change every other second."""

    def __init__(self) -> None:
        self._kept: Latest[str, _Answer] = Latest(_MOST_ANSWERS)
        self._lock = threading.Lock()

    def of(self, sampler: Sampler, job: str) -> _Answer:
        """What was measured of a job so far; waits for the disk."""
        # Before it is read: what is written meanwhile is seen with the next question.
        mark = sampler.mark(job)
        with self._lock:
            kept = self._kept.get(job)
        if kept is not None and kept.mark == mark:
            return kept
        usage = sampler.of(job)
        made = _Answer(mark, usage.revision, to_json(usage))
        with self._lock:
            return self._kept.keep(job, made)


_answers = _Answers()


@router.get("/usage", response_model=list[UsedBy], summary="Who used how much")
async def usage(
    site: SiteOf, _user: Member, days: Annotated[int, Query(ge=1, le=MOST_DAYS)] = 7
) -> Response:
    """Card-seconds of each user by kind of card, today and in the days before."""
    return answer(await run_in_threadpool(site.service.used, days))
