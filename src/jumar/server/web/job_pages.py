"""The list of jobs and the page of one job. Both ask for news of themselves every second."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.errors import JobEnded, NotFound
from jumar.server.api.follow import Decoder, OpenLog
from jumar.server.api.jobs import MOST_NUMBER
from jumar.server.edge.auth import Member, OpenedJob, SignedIn, find_job
from jumar.server.edge.site import Site, SiteOf
from jumar.server.web.endpoints import endpoint_values
from jumar.server.web.render import is_fragment, render
from jumar.server.web.spec_view import spec_rows
from jumar.server.web.terminal import plain
from jumar.spec.duration import parse_duration
from jumar.spec.records import JobPage, JobRecord, StagingRecord
from jumar.spec.staging import data_rows
from jumar.spec.states import ACTIVE, JobState

router = APIRouter()
ROWS = 50
SHOWN_LINES = 500
SHOWN_BYTES = 64 * 1024
_NO_CONTENT = 204


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What the visitor wants to see of the list."""

    state: JobState | None
    user: str
    text: str
    before: int | None

    def link(self, **changes: object) -> str:
        """The address of the list with some of it changed; always from the newest job on."""
        values = {"state": self.state, "user": self.user, "text": self.text, **changes}
        query = urlencode({name: value for name, value in values.items() if value})
        return f"/jobs?{query}" if query else "/jobs"

    @property
    def is_narrow(self) -> bool:
        """Whether jobs may be left out."""
        return bool(self.state or self.user or self.text)


@router.get("/jobs")
async def jobs_page(
    request: Request,
    site: SiteOf,
    user: SignedIn,
    state: str = "",
    owner: Annotated[str, Query(alias="user", max_length=64)] = "",
    text: Annotated[str, Query(max_length=200)] = "",
    before: Annotated[int | None, Query(ge=0, le=MOST_NUMBER)] = None,
    seen: int | None = None,
) -> Response:
    """The list of jobs; with `seen`, only if something has changed since."""
    if user.role == "pending":
        return RedirectResponse("/waiting", status_code=303)
    version = site.service.version
    if seen == version:
        return Response(status_code=_NO_CONTENT)
    chosen = Filter(
        state=JobState(state) if state in set(JobState) else None,
        user=owner.strip(),
        text=text.strip(),
        before=before,
    )
    page = await run_in_threadpool(_page, site, chosen)
    values = {"filter": chosen, "page": page, "version": version, "states": list(JobState)}
    template = "_jobs.html" if is_fragment(request) else "jobs.html"
    return render(request, template, values, user=user)


def _page(site: Site, chosen: Filter) -> JobPage:
    """One page of the list; jobs that run never fall off the first."""
    asked = partial(
        site.service.page, user=chosen.user or None, text=chosen.text or None, limit=ROWS
    )
    page = asked(states=() if chosen.state is None else (chosen.state,), before=chosen.before)
    if chosen.state is not None or chosen.before is not None or page.next_before is None:
        return page
    running = asked(states=ACTIVE).jobs
    shown = {job.id for job in running}
    rest = tuple(job for job in page.jobs if job.id not in shown)
    return replace(page, jobs=(*running, *rest))


@router.post("/jobs/stop")
async def stop_several(
    request: Request,
    site: SiteOf,
    user: Member,
    job: Annotated[list[str], Form(max_length=ROWS * 2)],
) -> Response:
    """Stop the chosen jobs, those that may be stopped, and show the list."""
    found = [await run_in_threadpool(find_job, site, one, user) for one in job]
    for one in found:
        with suppress(JobEnded):
            await run_in_threadpool(site.service.stop, one.id, by=user.name)
    return RedirectResponse("/jobs", status_code=303)


@router.get("/jobs/{job}")
async def job_page(
    request: Request,
    opened: OpenedJob,
    site: SiteOf,
    user: Member,
    log: Annotated[str, Query(pattern=r"^\d{1,6}-\d{1,7}$")] = "0-0",
    seen: int | None = None,
    carried: str = "",
) -> Response:
    """One job with the end of its log; with `seen`, only its state, and only if it changed.

    `carried` is when the visitor last saw how far the job's data is."""
    # Whatever happens while the page is put together is news to the next question.
    version = site.service.version
    if is_fragment(request) and seen == version:
        data = await run_in_threadpool(site.service.staging, opened.id)
        if carried == _told_at(data):
            return Response(status_code=_NO_CONTENT)
    record = await run_in_threadpool(site.service.get, opened.id)
    values: dict[str, object] = {
        "job": record,
        "version": version,
        "grace_s": parse_duration(record.spec.get("grace", 30)),
        "can_stop": not record.state.is_final,
        "failed": record.state.is_final and record.state is not JobState.SUCCEEDED,
        "last_attempt": record.attempts[-1] if record.attempts else None,
        "is_active": record.state in ACTIVE,
        "carried": _told_at(record.staging),
        "data": data_rows(record),
    }
    verdict = None
    if values["failed"]:
        verdict = await run_in_threadpool(site.service.diagnoses.quick, record)
    values["verdict"] = verdict
    if is_fragment(request):
        return render(request, "_job_news.html", values, user=user)
    node, rank = (int(part) for part in log.split("-"))
    values["logs"] = await run_in_threadpool(site.service.log_files, record.id)
    values["shown"] = await run_in_threadpool(_shown_log, site, record, node, rank)
    values["spec_rows"] = spec_rows(record)
    values |= await endpoint_values(request, site, opened)
    return render(request, "job.html", values, user=user)


def _told_at(record: StagingRecord | None) -> str:
    """When something was last told, as it stands in the page's address."""
    return "" if record is None else f"{record.updated_at:.3f}"


@router.get("/jobs/{owner}/{job}")
async def job_of_user(site: SiteOf, user: Member, owner: str, job: str) -> Response:
    """`/jobs/ann/train` leads to the job that ann calls so."""
    found = await run_in_threadpool(find_job, site, job, user, owner)
    return RedirectResponse(f"/jobs/{found.id}", status_code=303)


@router.post("/jobs/{job}/stop")
async def stop(opened: OpenedJob, site: SiteOf, user: Member) -> Response:
    """Stop the job and show it."""
    await run_in_threadpool(site.service.stop, opened.id, by=user.name)
    return RedirectResponse(f"/jobs/{opened.id}", status_code=303)


@router.post("/jobs/{job}/upload")
async def upload(opened: OpenedJob, site: SiteOf) -> Response:
    """Send the results that the job left on its machine, and show it."""
    await run_in_threadpool(site.service.upload, opened.id)
    return RedirectResponse(f"/jobs/{opened.id}", status_code=303)


@router.post("/jobs/{job}/rerun")
async def rerun(opened: OpenedJob, site: SiteOf, user: Member) -> Response:
    """Submit the job again and show the new one."""
    again = await run_in_threadpool(
        site.service.rerun, opened.id, user=user.name, ranked=user.role == "admin"
    )
    return RedirectResponse(f"/jobs/{again.id}", status_code=303)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLog:
    """The part of a log that is in the page from the start."""

    node: int
    rank: int
    text: str = ""
    start: int = 0
    end: int = 0
    """The byte that a follower goes on from."""
    exists: bool = True


def _shown_log(site: Site, record: JobRecord, node: int, rank: int) -> ShownLog:
    try:
        log = OpenLog(site.service.open_log(record.id, node, rank))
    except NotFound:
        return ShownLog(node=node, rank=rank, exists=False)
    try:
        size = log.size()
        decoder = Decoder(log.tail_offset(SHOWN_LINES, size, SHOWN_BYTES))
        start = decoder.offset
        # A character that is still being written is left to the follower.
        text = decoder.feed(log.read(start, size - start))
    finally:
        log.close()
    return ShownLog(node=node, rank=rank, text=plain(text), start=start, end=decoder.offset)
