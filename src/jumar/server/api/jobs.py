"""Jobs over REST: submit, list, look, stop, run again, remove, plan."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.jobs.finding import is_whole_array
from jumar.server.api.hub_refs import with_hub_files
from jumar.server.edge.auth import Member, OpenedJob
from jumar.server.edge.exchange import Body, answer, read_spec
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.job import JobSpec
from jumar.spec.people import UserRecord
from jumar.spec.records import JobPage, JobRecord, Plan
from jumar.spec.states import JobSort, JobState

router = APIRouter(tags=["jobs"])
MOST_ROWS = 500
# What a row's number can be in any database.
MOST_NUMBER = (1 << 63) - 1
Seen = Annotated[
    int | None, Query(ge=0, le=MOST_NUMBER, description="`revision` of the answer before")
]
SubmitKey = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=128)]
WantedEngine = Annotated[
    str | None,
    Query(max_length=16, description="where it runs; `engines` of /server lists what there is"),
]
SPEC_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/JobSpec"}}},
    }
}


@router.post(
    "/jobs",
    status_code=201,
    response_model=JobRecord,
    summary="Submit a job",
    openapi_extra=SPEC_BODY,
)
async def submit(
    request: Request,
    site: SiteOf,
    user: Member,
    idempotency_key: SubmitKey = None,
    engine: WantedEngine = None,
) -> Response:
    """Put a job into the queue. When this answers, the job is on disk.

    With an `Idempotency-Key`, sending the same request again gives the same job; the same key
    with another job is refused."""
    spec = await _wanted(request, site, user)
    record = await run_in_threadpool(
        site.service.submit,
        spec,
        user=user.name,
        key=idempotency_key,
        ranked=user.role == "admin",
        engine=engine,
    )
    return answer(record, 201)


@router.get("/jobs", response_model=JobPage, summary="List jobs, newest first")
async def list_jobs(
    site: SiteOf,
    _user: Member,
    state: Annotated[list[JobState], Query(description="only jobs in these states")] = [],  # noqa: B006  FastAPI copies it
    user: Annotated[str | None, Query(max_length=64, description="only jobs of this user")] = None,
    text: Annotated[
        str | None, Query(max_length=200, description="part of the name or of the id")
    ] = None,
    tag: Annotated[str | None, Query(max_length=32, description="only jobs with this tag")] = None,
    sort: JobSort = JobSort.NEWEST,
    before: Annotated[
        int | None, Query(ge=0, le=MOST_NUMBER, description="next_before of the page before")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 50,
) -> Response:
    """One page of the list, with how many jobs there are in each state."""
    page = await run_in_threadpool(
        site.service.page,
        states=tuple(state),
        user=user or None,
        text=text or None,
        tag=tag or None,
        sort=sort,
        before=before,
        limit=limit,
    )
    return answer(page)


@router.get("/jobs/{job}", response_model=JobRecord, summary="All about one job")
async def show(opened: OpenedJob, site: SiteOf) -> Response:
    """A job by its id, by the start of its id, or by its name (then the newest); your own come first.

    `?user=ann` asks for the one that ann calls so."""
    return answer(await run_in_threadpool(site.service.get, opened.id))


class Tags(Body):
    """All tags of a job."""

    tags: Annotated[list[str], Field(max_length=64)]


@router.put("/jobs/{job}/tags", response_model=JobRecord, summary="Tag a job")
async def tag_job(opened: OpenedJob, site: SiteOf, wanted: Tags) -> Response:
    """Give a job these tags, in place of those that it had."""
    await run_in_threadpool(site.service.tag, opened.id, wanted.tags)
    return answer(await run_in_threadpool(site.service.get, opened.id))


@router.post("/jobs/{job}/stop", response_model=JobRecord, summary="Stop a job")
async def stop(
    job: str,
    opened: OpenedJob,
    site: SiteOf,
    user: Member,
    why: Annotated[str | None, Query(max_length=200, description="kept with the job")] = None,
) -> Response:
    """Ask a job to end. Asking twice is once; a job that has ended is a conflict.

    The id or the name of an array stops all its jobs that have not ended."""
    if opened.array_id is not None and is_whole_array(job, opened):
        await run_in_threadpool(site.service.stop_array, opened.array_id, by=user.name, why=why)
        return answer(await run_in_threadpool(site.service.get, opened.id))
    stopped = await run_in_threadpool(site.service.stop, opened.id, by=user.name, why=why)
    return answer(stopped)


@router.post(
    "/jobs/{job}/rerun", status_code=201, response_model=JobRecord, summary="Run a job again"
)
async def rerun(
    job: str, opened: OpenedJob, site: SiteOf, user: Member, idempotency_key: SubmitKey = None
) -> Response:
    """Submit the same job once more, as a new job; the id or the name of an array: all its jobs, as a new array.

    With an `Idempotency-Key`, sending the same request again gives the same new job."""
    again = site.service.rerun
    ranked = user.role == "admin"
    whole = is_whole_array(job, opened)
    record = await run_in_threadpool(
        again, opened.id, user=user.name, key=idempotency_key, ranked=ranked, whole=whole
    )
    return answer(record, 201)


@router.post("/jobs/{job}/upload", response_model=JobRecord, summary="Upload left results")
async def upload(opened: OpenedJob, site: SiteOf) -> Response:
    """Begin to send what an ended job could not; `staging` tells how far it is. Twice is once."""
    return answer(await run_in_threadpool(site.service.upload, opened.id))


@router.delete("/jobs/{job}", status_code=204, summary="Remove a job")
async def remove(opened: OpenedJob, site: SiteOf) -> Response:
    """Remove a job that has ended, with its folder: logs, results, checkpoints. A job that is not over, or
    has results not yet uploaded, is a conflict."""
    await run_in_threadpool(site.service.remove, opened.id)
    return Response(status_code=204)


@router.post("/plans", response_model=Plan, summary="What would be done", openapi_extra=SPEC_BODY)
async def plan(
    request: Request, site: SiteOf, user: Member, engine: WantedEngine = None
) -> Response:
    """Check a job and say how it would run, without running it."""
    spec = await _wanted(request, site, user)
    return answer(await run_in_threadpool(site.service.plan, spec, user=user.name, engine=engine))


async def _wanted(request: Request, site: Site, user: UserRecord) -> JobSpec:
    """The job that is asked for, with what it names of the hub in place."""
    spec = await read_spec(request)
    if not spec.names_hub:
        return spec
    return await run_in_threadpool(with_hub_files, site, user, spec)
