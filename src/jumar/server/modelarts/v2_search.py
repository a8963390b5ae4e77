"""`/v2/{project_id}`: which training jobs there are, and how many there may be."""

import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import BadInput
from jumar.modelarts.told import PHASES, duration_ms, job_answer, milliseconds
from jumar.server.edge.exchange import answer
from jumar.server.modelarts.caller import By, Caller, takes
from jumar.spec.records import JobSummary

router = APIRouter(tags=["modelarts"], prefix="/v2/{project_id}")
MOST_ROWS = 50
_PAGE_ROWS = 1000
_BY_AGE = "create_time"
_SORTED_BY: dict[str, Callable[[JobSummary], Any]] = {
    "name": lambda job: job.name,
    "job_name": lambda job: job.name,
    "phase": lambda job: PHASES[job.state],
    "status": lambda job: PHASES[job.state],
    "duration": lambda job: duration_ms(job, time.time()),
    "start_time": lambda job: job.started_at or 0.0,
}


class _Filter(BaseModel):
    key: Annotated[str, Field(max_length=64)]
    operator: Literal["equal", "in", "like", "between", "not"] = "equal"
    value: Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=100)] = []


class Search(BaseModel):
    """Which jobs are asked for."""

    offset: Annotated[int, Field(ge=0, le=1 << 31)] | None = 0
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS)] | None = MOST_ROWS
    sort_by: Annotated[str, Field(max_length=64)] | None = _BY_AGE
    order: Literal["asc", "desc"] | None = "desc"
    filters: Annotated[list[_Filter], Field(max_length=20)] | None = None


BODIES = (Search,)


@router.post("/training-job-searches", summary="List training jobs", openapi_extra=takes(Search))
async def search(by: By) -> Response:
    """One's own jobs of this project, newest first unless told otherwise."""
    return answer(await run_in_threadpool(_search, by))


def _search(by: Caller) -> dict[str, Any]:
    wanted = by.read(Search)
    offset, limit = wanted.offset or 0, wanted.limit or MOST_ROWS
    found = [job for job in _own_jobs(by) if all(_fits(job, one) for one in wanted.filters or ())]
    sort_by = wanted.sort_by if wanted.sort_by in _SORTED_BY else _BY_AGE
    if sort_by in _SORTED_BY:
        found.sort(key=_SORTED_BY[sort_by], reverse=True)
    if wanted.order == "asc":
        found.reverse()
    now = time.time()
    shown = [
        job_answer(record, kept.asked, now)
        for record, kept in by.jobs(job.id for job in found[offset : offset + limit])
    ]
    return {
        "total": len(found),
        "count": len(shown),
        "limit": limit,
        "offset": offset,
        "sort_by": sort_by,
        "order": wanted.order or "desc",
        "items": shown,
    }


def _own_jobs(by: Caller) -> list[JobSummary]:
    """The user's jobs that can be shown in this project, newest first."""
    found: list[JobSummary] = []
    before = None
    while True:
        page = by.site.service.page(user=by.user.name, before=before, limit=_PAGE_ROWS)
        found += page.jobs
        before = page.next_before
        if before is None:
            break
    hidden = by.kept.hidden_in(by.project)
    return [job for job in found if job.id not in hidden]


def _fits(job: JobSummary, wanted: _Filter) -> bool:
    values = {
        "id": job.id,
        "name": job.name,
        "user_name": job.user,
        "phase": PHASES[job.state],
        "create_time": str(milliseconds(job.created_at)),
    }
    actual = values.get(wanted.key)
    if actual is None:
        raise BadInput(f"filters: {wanted.key!r} is no key", hint=f"keys are {', '.join(values)}")
    if wanted.operator == "like":
        return any(part in actual for part in wanted.value)
    if wanted.operator == "between":
        if len(wanted.value) != 2 or not all(one.isdecimal() for one in wanted.value):
            raise BadInput("filters: between needs two numbers")
        low, high = (int(one[:20]) for one in wanted.value)
        return actual.isdecimal() and low <= int(actual) <= high
    return (actual in wanted.value) != (wanted.operator == "not")


@router.get("/training-job-names", summary="Whether a name is taken")
async def is_taken(by: By, job_name: Annotated[str, Query(max_length=128)] = "") -> Response:
    """Whether one of the user's jobs is called so."""
    jobs = await run_in_threadpool(_own_jobs, by)
    return answer({"is_duplicate": any(job.name == job_name for job in jobs)})


@router.get("/training-quotas", summary="How many jobs may run")
async def quotas(by: By, resource: Annotated[str, Query(max_length=64)] = "") -> Response:
    """Jobs that have not ended, and how many there may be."""
    jobs = await run_in_threadpool(_own_jobs, by)
    used = sum(not job.state.is_final for job in jobs)
    found = [{"resource": "job-num", "quota": 1000, "used": used}]
    return answer({"quotas": [one for one in found if resource in ("", one["resource"])]})
