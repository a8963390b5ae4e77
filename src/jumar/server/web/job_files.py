"""The files of a job in a browser: one folder at a time, and a look into one file.

What a job wrote is never a page of ours: only images are sent as what they are, sandboxed; all else as text
inside a page, or to be saved."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import JobFileNotFound
from jumar.server.api.files import JobPath
from jumar.server.api.open_log import OpenLog
from jumar.server.edge.auth import Member, OpenedJob
from jumar.server.edge.site import Site, SiteOf
from jumar.server.web.preview import MOST_IMAGE_BYTES, Preview, image_type, preview
from jumar.server.web.render import render
from jumar.spec.records import JobFile, JobSummary

router = APIRouter(prefix="/jobs/{job}/files")
_ROWS = 500
_PAGE_ROWS = 1000
_MOST_PAGES = 50
# After every name that people write.
_LAST_NAME = "\U0010ffff"
_SANDBOX = "default-src 'none'; sandbox; frame-ancestors 'none'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """One folder of a job."""

    path: str
    entries: tuple[JobFile, ...]
    next_after: str | None


@router.get("")
async def files_page(
    request: Request,
    opened: OpenedJob,
    site: SiteOf,
    user: Member,
    path: JobPath = "",
    after: Annotated[str, Query(max_length=4096)] = "",
) -> Response:
    """A folder, or a look into a file."""
    folder = await run_in_threadpool(_folder, site, opened.id, path, after)
    values: dict[str, object] = {
        "job": opened,
        "folder": folder,
        "crumbs": _crumbs(folder.path),
        "file": None,
        "look": None,
        "address": partial(_address, f"/jobs/{opened.id}/files"),
        "raw": partial(_address, f"/jobs/{opened.id}/files/raw"),
        "download": partial(_address, f"/api/v1/jobs/{opened.id}/files/content"),
    }
    if len(folder.entries) == 1 and folder.entries[0].path == folder.path:
        values["file"] = folder.entries[0]
        values["look"] = await run_in_threadpool(_look, site, opened, folder.path)
    return render(request, "files.html", values, user=user)


@router.get("/raw")
async def image(opened: OpenedJob, site: SiteOf, path: JobPath) -> Response:
    """An image, as one; anything else is not found."""

    def load() -> tuple[str, bytes]:
        with site.service.open_file(opened.id, path) as file:
            data = file.read(MOST_IMAGE_BYTES + 1) or b""
        kind = image_type(data)
        if kind is None or len(data) > MOST_IMAGE_BYTES:
            raise JobFileNotFound(f"{path} is not an image that can be shown")
        return kind, data

    kind, data = await run_in_threadpool(load)
    return Response(data, media_type=kind, headers={"Content-Security-Policy": _SANDBOX})


def _address(place: str, **query: str) -> str:
    return f"{place}?{urlencode(query)}" if query else place


def _look(site: Site, job: JobSummary, path: str) -> Preview:
    file = site.service.open_file(job.id, path)
    log = OpenLog(file)
    try:
        return preview(path, log.size(), log.read)
    finally:
        log.close()


def _folder(site: Site, job_id: str, path: str, after: str) -> Folder:
    """One level of what is listed with all that is below: what is inside of a folder is passed over."""
    found: list[JobFile] = []
    place = path
    for _ in range(_MOST_PAGES):
        page = site.service.job_files(job_id, path, after=after, limit=_PAGE_ROWS)
        place = page.path
        prefix = f"{place}/" if place else ""
        here = [
            file
            for file in page.files
            if file.path == place or "/" not in file.path.removeprefix(prefix)
        ]
        found += here
        if page.next_after is None or len(found) >= _ROWS:
            after = "" if page.next_after is None else here[-1].path if here else page.next_after
            break
        child = page.next_after.removeprefix(prefix).partition("/")[0]
        after = f"{prefix}{child}/{_LAST_NAME}"
    folders_first = sorted(found, key=lambda file: (file.kind != "folder", file.path))
    return Folder(path=place, entries=tuple(folders_first), next_after=after or None)


def _crumbs(path: str) -> list[tuple[str, str]]:
    """Each folder on the way, with its path."""
    parts = [part for part in path.split("/") if part]
    return [(part, "/".join(parts[: i + 1])) for i, part in enumerate(parts)]
