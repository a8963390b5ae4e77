"""The files of a job over REST: listed a page at a time, read whole or in part."""

import os
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from jumar.errors import FileChanged
from jumar.launch.jobdir.browse import etag_of
from jumar.server.api.open_log import OpenLog, blocks
from jumar.server.edge.auth import OpenedJob
from jumar.server.edge.exchange import answer
from jumar.server.edge.requests import Part, parse_range
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.records import FilePage

router = APIRouter(tags=["files"], prefix="/jobs/{job}/files")
MOST_ROWS = 10_000
_MOST_PATH = 4096
JobPath = Annotated[
    str, Query(max_length=_MOST_PATH, description="below the job's folder, such as out/model")
]


@router.get("", response_model=FilePage, summary="What a job has left")
async def list_files(
    opened: OpenedJob,
    site: SiteOf,
    path: JobPath = "",
    after: Annotated[
        str, Query(max_length=_MOST_PATH, description="next_after of the page before")
    ] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 1000,
) -> Response:
    """All below `path`, folders before what is in them. Links are listed, not followed."""
    page = await run_in_threadpool(
        site.service.job_files, opened.id, path, after=after, limit=limit
    )
    return answer(page)


@router.get(
    "/content",
    response_class=Response,
    summary="Read a file",
    responses={
        200: {
            "content": {"application/octet-stream": {}},
            "headers": {
                "ETag": {"description": "changes when the file does"},
                "X-Modified-At": {"description": "when that was, in unix seconds"},
            },
        },
        206: {"description": "the part that `Range` asks for"},
        412: {"description": "the file is not the one that `If-Match` names"},
        416: {"description": "the range begins after the end"},
    },
)
async def read_file(request: Request, opened: OpenedJob, site: SiteOf, path: JobPath) -> Response:
    """The whole file or a byte range of it.

    To go on after a cut, send `Range` with the ETag as `If-Match` (412 once the file has changed) or as
    `If-Range` (the whole file then)."""
    found = await run_in_threadpool(_open, site, opened.id, path)
    try:
        part = _wanted(request, found)
    except BaseException:
        found.file.close()
        raise
    headers = {
        "ETag": found.etag,
        "X-Modified-At": str(found.modified_at),
        "Accept-Ranges": "bytes",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2])}",
    }
    if part is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.end - 1}/{found.size}"
    body = part or Part(0, found.size)
    headers["Content-Length"] = str(body.end - body.start)
    return StreamingResponse(
        blocks(found.file, body),
        200 if part is None else 206,
        headers,
        media_type="application/octet-stream",
    )


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file and what it was when it was opened: it may grow while it is sent."""

    file: OpenLog
    size: int
    modified_at: float
    etag: str


def _open(site: Site, job_id: str, path: str) -> _Opened:
    file = site.service.open_file(job_id, path)
    status = os.fstat(file.fileno())
    etag = etag_of(status.st_ino, status.st_size, status.st_mtime_ns)
    return _Opened(OpenLog(file), status.st_size, status.st_mtime, f'"{etag}"')


def _wanted(request: Request, found: _Opened) -> Part | None:
    match = request.headers.get("if-match")
    if match is not None and match.strip() != "*" and found.etag not in _tags(match):
        raise FileChanged("the file has changed", hint="read it from its beginning")
    condition = request.headers.get("if-range")
    if condition is not None and condition.strip() != found.etag:
        return None
    return parse_range(request.headers.get("range"), found.size)


def _tags(header: str) -> set[str]:
    return {tag.strip() for tag in header.split(",")}
