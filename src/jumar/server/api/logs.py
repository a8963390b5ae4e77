"""Logs over REST: by byte range and by their last lines; live in `follow`."""

import re
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from jumar.errors import LogNotFound
from jumar.server.api.follow import MOST_OFFSET, LastLines, Node, Rank
from jumar.server.api.log_search import MOST_HITS, Hits, offset_of_line, search
from jumar.server.api.open_log import OpenLog, blocks
from jumar.server.api.why import judging
from jumar.server.edge.auth import SeenJob
from jumar.server.edge.exchange import answer
from jumar.server.edge.requests import Part, parse_range
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.records import LogFile

router = APIRouter(tags=["logs"], prefix="/jobs/{job}/logs")
_MOST_NAMED = 8
_RANK_LOG = re.compile(r"logs/node([0-9]{1,6})/rank([0-9]{1,7})\.log")
# A search takes a core for as long as it lasts.
_searching = CapacityLimiter(2)


@router.get("", response_model=list[LogFile], summary="The logs of a job")
async def list_logs(opened: SeenJob, site: SiteOf) -> Response:
    """One log per rank, with its size in bytes."""
    return answer(await run_in_threadpool(site.service.log_files, opened.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstError:
    """The line that tells of the first fault of a job."""

    file: str
    """Below the job's folder."""
    line: int
    """Counted from 1."""
    text: str
    node: int | None = None
    """Whose log it is; null for a file that is not the log of a rank."""
    rank: int | None = None
    offset: int | None = None
    """The byte of that log where the line begins."""


@router.get("/first-error", response_model=FirstError, summary="Where the first error is")
async def first_error(opened: SeenJob, site: SiteOf) -> Response:
    """The line by which `jumar why` judges; 404 where no log tells of an error."""
    return answer(await to_thread.run_sync(find_first_error, site, opened.id, limiter=judging))


def find_first_error(site: Site, job_id: str) -> FirstError:
    """LogNotFound where there is none; reads all logs of the job."""
    # Who looks by a link may see the logs, not the code.
    evidence = site.service.why(job_id, with_code=False).evidence
    if not evidence:
        raise LogNotFound("no line of the job's logs reports an error")
    first = evidence[0]
    found = FirstError(file=first.file, line=first.line, text=first.text)
    named = _RANK_LOG.fullmatch(first.file)
    if named is None:
        return found
    node, rank = int(named[1]), int(named[2])
    with closing(_open(site, job_id, node, rank)) as log:
        offset = offset_of_line(log, first.line)
    return replace(found, node=node, rank=rank, offset=offset)


@router.get("/{node}/{rank}/search", response_model=Hits, summary="Search a log")
async def search_log(
    opened: SeenJob,
    site: SiteOf,
    node: Node,
    rank: Rank,
    text: Annotated[str, Query(min_length=1, max_length=200)],
    offset: Annotated[int, Query(ge=0, le=MOST_OFFSET, description="where to begin")] = 0,
    line: Annotated[
        int, Query(ge=1, le=MOST_OFFSET, description="the number of the line there")
    ] = 1,
    limit: Annotated[int, Query(ge=1, le=MOST_HITS)] = 100,
) -> Response:
    """Lines of the whole log that hold a text, in order, with the lines around them.

    Ask again with `next_offset` and `next_line` for more; a long log is searched piece by piece, and an
    answer may hold no line although there are some further on."""

    def look() -> Hits:
        with closing(_open(site, opened.id, node, rank)) as log:
            return search(log, text, start=offset, line=line, limit=limit)

    return answer(await to_thread.run_sync(look, limiter=_searching))


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
    request: Request, opened: SeenJob, site: SiteOf, node: Node, rank: Rank, tail: LastLines = None
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
