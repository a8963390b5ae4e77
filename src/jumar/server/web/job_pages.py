"""The list of jobs and the page of one job. Both ask for news of themselves every second."""

import time
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import APIRouter, Form, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.errors import JobEnded, NotFound
from jumar.jobs.rows import JobRow
from jumar.server.api.jobs import MOST_NUMBER
from jumar.server.api.logs import MOST_OFFSET, find_first_error
from jumar.server.api.open_log import Decoder, OpenLog
from jumar.server.api.plain import plain
from jumar.server.api.why import judging
from jumar.server.edge.auth import (
    Member,
    OpenedJob,
    SeenJob,
    SignedIn,
    Visitor,
    find_job,
    may_open,
)
from jumar.server.edge.quick import plain_query, quick_route
from jumar.server.edge.site import Site, SiteOf
from jumar.server.web.endpoints import endpoint_values
from jumar.server.web.ran_in import environments
from jumar.server.web.render import is_fragment, render
from jumar.server.web.spec_view import spec_rows
from jumar.server.web.timeline import timeline
from jumar.spec.duration import parse_duration
from jumar.spec.records import JobPage, JobRecord, LogFile, StagingRecord
from jumar.spec.staging import data_rows
from jumar.spec.states import ACTIVE, JobSort, JobState

router = APIRouter()
ROWS = 50
SHOWN_LINES = 500
SHOWN_BYTES = 48 * 1024
LINES_BEFORE = 20
_NO_CUDA = "no-cuda"
"""The fault of `why` that a port may mend."""
_OWN_ROWS = frozenset({"job.environment", "job.inputs", "job.outputs"})
_NO_CONTENT = 204


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What the visitor wants to see of the list."""

    state: JobState | None
    user: str
    text: str
    tag: str
    sort: JobSort
    before: int | None

    def link(self, **changes: object) -> str:
        """The address of the list with some of it changed; always from the newest job on."""
        sort = "" if self.sort is JobSort.NEWEST else self.sort
        same = {"state": self.state, "user": self.user, "text": self.text, "tag": self.tag}
        values = {**same, "sort": sort, **changes}
        query = urlencode({name: value for name, value in values.items() if value})
        return f"/jobs?{query}" if query else "/jobs"

    @property
    def is_narrow(self) -> bool:
        """Whether jobs may be left out."""
        return bool(self.state or self.user or self.text or self.tag)


@router.get("/jobs")
async def jobs_page(
    request: Request,
    site: SiteOf,
    user: SignedIn,
    state: str = "",
    owner: Annotated[str, Query(alias="user", max_length=64)] = "",
    text: Annotated[str, Query(max_length=200)] = "",
    tag: Annotated[str, Query(max_length=32)] = "",
    sort: str = "",
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
        tag=tag.strip(),
        sort=JobSort(sort) if sort in set(JobSort) else JobSort.NEWEST,
        before=before,
    )
    page = await run_in_threadpool(_page, site, chosen)
    values = {
        "filter": chosen,
        "page": page,
        "version": version,
        "states": list(JobState),
        "sorts": list(JobSort),
    }
    template = "_jobs.html" if is_fragment(request) else "jobs.html"
    return render(request, template, values, user=user)


def _page(site: Site, chosen: Filter) -> JobPage:
    """One page of the list; jobs that run never fall off the first."""
    asked = partial(
        site.service.page,
        user=chosen.user or None,
        text=chosen.text or None,
        tag=chosen.tag or None,
        sort=chosen.sort,
        limit=ROWS,
    )
    page = asked(states=() if chosen.state is None else (chosen.state,), before=chosen.before)
    if chosen.state is not None or chosen.before is not None or page.next_before is None:
        return page
    # Where more run than a page has, those come in the same order.
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


async def _no_news(request: Request, site: Site, row: JobRow) -> Response | None:
    """Of a job without data to carry nothing is new while the version is the same."""
    found = plain_query(request, "seen", "carried")
    if found is None or found.get("seen") != str(site.service.version) or found.get("carried"):
        return None
    is_all = row.spec.stages_data or not is_fragment(request)
    return None if is_all else Response(status_code=_NO_CONTENT)


job_router = APIRouter(route_class=quick_route(_no_news))
"""The one page that asks again and again while it is open."""


@job_router.get("/jobs/{job}")
async def job_page(
    request: Request,
    opened: SeenJob,
    site: SiteOf,
    user: Visitor,
    log: Annotated[str, Query(pattern=r"^(\d{1,6}-\d{1,7})?$")] = "",
    at: Annotated[int | None, Query(ge=0, le=MOST_OFFSET)] = None,
    seen: int | None = None,
    carried: str = "",
) -> Response:
    """One job with the end of its log, or what is around byte `at` of it; with `seen`, only its state, and
    only if it changed.

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
        "can_change": user is not None and may_open(user, record.user),
        "can_stop": not record.state.is_final,
        "timeline": timeline(record, time.time()),
        "failed": record.state.is_final and record.state is not JobState.SUCCEEDED,
        "last_attempt": record.attempts[-1] if record.attempts else None,
        "is_active": record.state in ACTIVE,
        "carried": _told_at(record.staging),
        "data": data_rows(record),
    }
    verdict = None
    if values["failed"]:
        # Who was given a link sees the logs, not the code.
        told = partial(site.service.diagnoses.quick, record, with_code=bool(values["can_change"]))
        verdict = await run_in_threadpool(told)
    values["verdict"] = verdict
    asks_for_cuda = verdict is not None and verdict.cause == _NO_CUDA
    values["can_port"] = asks_for_cuda and not record.spec.get("auto_port")
    logs = await run_in_threadpool(site.service.log_files, record.id)
    values |= {"logs": logs, "tail": _tail(record, logs)}
    if is_fragment(request):
        return render(request, "_job_news.html", values, user=user)
    node, rank = (int(part) for part in log.split("-")) if log else _told_by(record, logs)
    values["shown"] = await run_in_threadpool(_shown_log, site, record, node, rank, at)
    rows = spec_rows(record)
    if values["can_change"]:
        ran_in = await run_in_threadpool(environments, site, record.id)
        values |= {"spec_rows": rows, "ran_in": ran_in}
        values |= await endpoint_values(request, site, opened)
    else:
        # Who was given a link sees what ran, not what else its user has told the job.
        shared = [row for row in rows if row.label not in _OWN_ROWS]
        values |= {"spec_rows": shared, "endpoints": [], "ssh_host": "", "ran_in": []}
    return render(request, "job.html", values, user=user)


def _told_by(record: JobRecord, logs: tuple[LogFile, ...]) -> tuple[int, int]:
    """The log to begin with: of the rank that failed, else the first."""
    failed = record.attempts[-1].values.get("rank") if record.attempts else None
    places = [(file.node, file.rank) for file in logs]
    return next((place for place in places if place[1] == failed), min(places, default=(0, 0)))


def _tail(record: JobRecord, logs: tuple[LogFile, ...]) -> str | None:
    """The last lines of what failed, where they are not the end of a log that is on the page."""
    if not record.attempts:
        return None
    last = record.attempts[-1]
    is_logged = any(file.rank == last.values.get("rank", 0) for file in logs)
    return None if is_logged else last.tail


@router.post("/jobs/{job}/tags")
async def tag(
    opened: OpenedJob, site: SiteOf, tags: Annotated[str, Form(max_length=1024)] = ""
) -> Response:
    """Give the job these tags and show it."""
    await run_in_threadpool(site.service.tag, opened.id, tags.replace(",", " ").split())
    return RedirectResponse(f"/jobs/{opened.id}", status_code=303)


@router.get("/jobs/{job}/error")
async def first_error_page(opened: SeenJob, site: SiteOf) -> Response:
    """Leads to the first error in the job's logs, or says that there is none."""
    found = await to_thread.run_sync(find_first_error, site, opened.id, limiter=judging)
    if found.offset is None:
        query = urlencode({"path": found.file})
        return RedirectResponse(f"/jobs/{opened.id}/files?{query}", status_code=303)
    query = urlencode({"log": f"{found.node}-{found.rank}", "at": found.offset})
    return RedirectResponse(f"/jobs/{opened.id}?{query}#log", status_code=303)


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
    raw: str | None = None
    """The same with its colours, where it has some."""
    start: int = 0
    end: int = 0
    """The byte that a follower goes on from."""
    line: int | None = None
    """Which line of the text was asked for; None where the end was."""


def _shown_log(site: Site, record: JobRecord, node: int, rank: int, at: int | None) -> ShownLog:
    try:
        log = OpenLog(site.service.open_log(record.id, node, rank))
    except NotFound:
        return ShownLog(node=node, rank=rank)
    with closing(log):
        end = size = log.size()
        begin = log.tail_offset(SHOWN_LINES, size, SHOWN_BYTES)
        if at is not None and at < begin:
            begin = log.tail_offset(LINES_BEFORE, at, SHOWN_BYTES // 4)
            end = log.line_end(min(size, begin + SHOWN_BYTES), size)
        decoder = Decoder(begin)
        data = log.read(begin, end - begin)
        # A character that is still being written is left to the follower.
        text = decoder.feed(data)
    shown = plain(text)
    return ShownLog(
        node=node,
        rank=rank,
        text=shown,
        raw=text if "\x1b" in text else None,
        start=begin,
        end=decoder.offset,
        line=None if at is None else data[: max(0, at - begin)].count(b"\n"),
    )
