"""Logs over REST: by byte range, by their last lines, and live."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from jumar.errors import BadInput, LogNotFound
from jumar.server.api.follow import Follower, OpenLog, Start, blocks
from jumar.server.edge.auth import OpenedJob, check_still_allowed, right_of
from jumar.server.edge.exchange import answer
from jumar.server.edge.requests import Part, parse_range, whole_number
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.records import LogFile

router = APIRouter(tags=["logs"], prefix="/jobs/{job}/logs")
MOST_LINES = 1_000_000
MOST_OFFSET = 1 << 62
_MOST_NAMED = 8
Node = Annotated[int, Path(ge=0, le=100_000)]
Rank = Annotated[int, Path(ge=0, le=1_000_000)]
Tail = Annotated[int | None, Query(ge=0, le=MOST_LINES, description="only the last lines")]


@router.get("", response_model=list[LogFile], summary="The logs of a job")
async def list_logs(opened: OpenedJob, site: SiteOf) -> Response:
    """One log per rank, with its size in bytes."""
    return answer(await run_in_threadpool(site.service.log_files, opened.id))


@router.get(
    "/{node}/{rank}",
    response_class=Response,
    summary="Read a log",
    responses={
        200: {
            "content": {"text/plain": {}},
            "headers": {
                "X-Log-Offset": {"description": "byte of the log that the answer begins with"},
                "X-Log-Size": {"description": "size of the log when the answer began"},
            },
        },
        206: {"description": "the part that `Range` asks for"},
        416: {"description": "the range begins after the end"},
    },
)
async def read_log(
    request: Request, opened: OpenedJob, site: SiteOf, node: Node, rank: Rank, tail: Tail = None
) -> Response:
    """The whole log, a byte range of it, or its last lines."""
    log = await run_in_threadpool(_open, site, opened.id, node, rank)
    try:
        size = await run_in_threadpool(log.size)
        headers = {"X-Log-Size": str(size), "Accept-Ranges": "bytes"}
        part = parse_range(request.headers.get("range"), size) if tail is None else None
        if tail is not None:
            body = Part(await run_in_threadpool(log.tail_offset, tail, size), size)
        else:
            body = part or Part(0, size)
    except BaseException:
        log.close()
        raise
    if part is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.end - 1}/{size}"
    headers["X-Log-Offset"] = str(body.start)
    headers["Content-Length"] = str(body.end - body.start)
    return StreamingResponse(
        blocks(log, body),
        200 if part is None else 206,
        headers,
        media_type="text/plain; charset=utf-8",
    )


@router.get(
    "/{node}/{rank}/stream",
    response_class=StreamingResponse,
    summary="Follow a log",
    responses={200: {"content": {"text/event-stream": {}}}},
)
async def follow_log(
    request: Request,
    opened: OpenedJob,
    site: SiteOf,
    node: Node,
    rank: Rank,
    offset: Annotated[int | None, Query(ge=0, le=MOST_OFFSET)] = None,
    tail: Tail = None,
) -> Response:
    """Server-sent events `log`, `state` and, when the job is over, `end`; `refused` ends the stream of
    a user who may no longer see the job.

    `id` is the byte after the piece; sent back as `Last-Event-ID`, the stream goes on there. A job
    that has not started yet is waited for."""
    start = Start(offset=offset or 0, tail=tail if offset is None else None)
    resumed = request.headers.get("last-event-id")
    if resumed is not None:
        place = whole_number(resumed, most=MOST_OFFSET)
        if place is None:
            raise BadInput("Last-Event-ID is not an offset")
        start = Start(offset=place)
    check = partial(check_still_allowed, site, right_of(request), opened.user)
    follower = Follower(site, opened.id, node, rank, start, check_rights=check)
    return StreamingResponse(
        follower.events(),
        media_type="text/event-stream",
        # Proxies that collect an answer before they pass it on would make it late.
        headers={"X-Accel-Buffering": "no"},
    )


def _open(site: Site, job_id: str, node: int, rank: int) -> OpenLog:
    try:
        return OpenLog(site.service.open_log(job_id, node, rank))
    except LogNotFound as error:
        files = site.service.log_files(job_id)
        places = ", ".join(f"node {file.node} rank {file.rank}" for file in files[:_MOST_NAMED])
        more = ", …" if len(files) > _MOST_NAMED else ""
        raise LogNotFound(
            error.message, hint=f"the job has logs of: {places}{more}" if files else None
        ) from error
