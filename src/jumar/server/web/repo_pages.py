"""Pages of the hub: the catalogue, one repository with its README and files, one file."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse

from jumar.errors import JumarError
from jumar.hub import card, reading
from jumar.hub.names import KINDS, check_path, kind_of
from jumar.hub.previews import Preview, preview
from jumar.hub.reading import Commit, Entry
from jumar.hub.zipped import zipped
from jumar.server.api.repos import ReadableRepo, search_repos, with_address
from jumar.server.edge.auth import Member
from jumar.server.edge.site import Site, SiteOf
from jumar.server.web.readme import render_readme
from jumar.server.web.render import render
from jumar.spec.people import UserRecord
from jumar.spec.repos import RepoRecord

router = APIRouter(prefix="/repos")
_README_BYTES = 256 << 10
_SHOWN_BYTES = 128 << 10
_MOST_ENTRIES = 1000
_BLOCK_BYTES = 1 << 20
_Revision = Annotated[str, Query(max_length=200)]
_Path = Annotated[str, Query(max_length=4096)]
# A browser must not take what anybody pushed for a page of ours.
_SANDBOXED = {"Content-Security-Policy": "default-src 'none'; sandbox"}


@dataclass(frozen=True, slots=True)
class Look:
    """What one page shows of a repository."""

    commit: str
    folders: tuple[Entry, ...] = ()
    files: tuple[Entry, ...] = ()
    readme: str = ""
    text: str | None = None
    preview: Preview | None = None
    history: tuple[Commit, ...] = ()
    branches: tuple[str, ...] = ()


@router.get("")
async def catalogue_page(
    request: Request,
    site: SiteOf,
    user: Member,
    kind: str = "",
    search: Annotated[str, Query(max_length=200)] = "",
    owner: Annotated[str, Query(max_length=64)] = "",
    start: Annotated[int, Query(ge=0, le=1 << 30)] = 0,
) -> Response:
    """Everything that the visitor may read."""
    # Any other word means all kinds: it came from an address that somebody typed.
    wanted = kind_of(kind) if kind in KINDS else None
    found = await run_in_threadpool(search_repos, site, user, wanted, search, owner, start)
    values = {"repos": found, "kind": kind, "search": search, "owner": owner, "kinds": KINDS}
    return render(request, "repos.html", {**values, "problem": None}, user=user)


@router.post("")
async def create(
    request: Request,
    site: SiteOf,
    user: Member,
    kind: Annotated[str, Form(max_length=16)],
    name: Annotated[str, Form(max_length=200)],
    private: Annotated[bool, Form()] = False,
) -> Response:
    """Make a repository and show it, or say why not."""

    def make() -> RepoRecord:
        return site.hub.repositories.create(user, kind, name.strip(), private=private)

    try:
        repo = await run_in_threadpool(make)
    except JumarError as error:
        found = await run_in_threadpool(search_repos, site, user, None, "", "")
        blank = {"kind": "", "search": "", "owner": ""}
        values = {"repos": found, **blank, "kinds": KINDS, "problem": error}
        return render(request, "repos.html", values, user=user, status=error.status)
    return RedirectResponse(f"/repos/{repo.kind}/{repo.owner}/{repo.name}", status_code=303)


@router.get("/{kind}/{owner}/{name}")
async def repo_page(
    request: Request,
    site: SiteOf,
    user: Member,
    repo: ReadableRepo,
    revision: _Revision = reading.MAIN,
    path: _Path = "",
) -> Response:
    """README and files of a repository, or one of its folders or files."""
    shown = await run_in_threadpool(_look, site, repo, revision, path)
    base = f"/repos/{repo.kind}/{repo.owner}/{repo.name}?revision={quote(revision, safe='')}"
    values = {
        "repo": with_address(request, site, repo),
        "look": shown,
        "revision": revision,
        "path": path,
        "parent": path.rpartition("/")[0],
        "base": base,
        "raw": base.replace("?", "/file?", 1),
        "zip": base.replace("?", "/folder?", 1),
        "may_write": await run_in_threadpool(_may_write, site, user, repo),
        "quote": quote,
        "hub_url": f"hub://{repo.kind}/{repo.owner}/{repo.name}@{revision}",
        "hf_endpoint": f"{request.url.scheme}://{request.url.netloc}/hf",
    }
    return render(request, "repo.html", values, user=user)


@router.get("/{kind}/{owner}/{name}/file")
async def download(
    request: Request,
    site: SiteOf,
    repo: ReadableRepo,
    path: _Path,
    revision: _Revision = reading.MAIN,
) -> Response:
    """One file, to be saved: a browser must not show what anybody pushed as a page of ours."""

    def find() -> Response:
        folder = site.hub.repositories.folder(repo)
        entry = reading.entry_at(folder, reading.commit_of(folder, revision), path)
        shown = quote(path.rpartition("/")[2], safe="")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{shown}", **_SANDBOXED}
        if entry.pointer is None:
            content = reading.content(folder, entry.oid)
            return Response(content, media_type="application/octet-stream", headers=headers)
        headers["ETag"] = f'"{entry.pointer.oid}"'
        file = site.hub.objects.open(repo, entry.pointer.oid, path)
        if "range" in request.headers:
            with file:
                stored = file.name
            return FileResponse(stored, media_type="application/octet-stream", headers=headers)
        # A large one is hashed as it is sent: nobody waits for that, and a damaged one ends before its end.
        headers |= {
            "Content-Length": str(os.fstat(file.fileno()).st_size),
            "Accept-Ranges": "bytes",
        }
        blocks = _blocks(file)
        return StreamingResponse(blocks, media_type="application/octet-stream", headers=headers)

    return await run_in_threadpool(find)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while block := file.read(_BLOCK_BYTES):
            yield block


@router.get("/{kind}/{owner}/{name}/folder")
async def download_folder(
    site: SiteOf,
    repo: ReadableRepo,
    path: _Path = "",
    revision: _Revision = reading.MAIN,
) -> Response:
    """A folder, or all of the repository, as one zip file."""

    def find() -> Response:
        folder = site.hub.repositories.folder(repo)
        if path:
            check_path(path)
        commit = reading.commit_of(folder, revision)
        blocks = zipped(folder, site.hub.objects, repo, commit, path)
        shown = quote(f"{path.rpartition('/')[2] or repo.name}.zip", safe="")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{shown}", **_SANDBOXED}
        return StreamingResponse(blocks, media_type="application/zip", headers=headers)

    return await run_in_threadpool(find)


def _look(site: Site, repo: RepoRecord, revision: str, path: str) -> Look | None:
    """None of a repository that is still empty."""
    if path:
        check_path(path)
    folder = site.hub.repositories.folder(repo)
    if revision == reading.MAIN and reading.head_of(folder) is None:
        return None
    commit = reading.commit_of(folder, revision)
    branches = tuple(ref.name for ref in reading.refs(folder)[0])
    history = tuple(reading.history(folder, commit, most=10, path=path))
    found = reading.entries(folder, commit, path, recursive=False)
    if path and not found:
        entry = reading.entry_at(folder, commit, path)
        shown = preview(folder, site.hub.objects, repo, entry)
        text = "" if shown is not None else _text(folder, entry)
        return Look(commit, text=text, preview=shown, history=history, branches=branches)
    inside = f"{path}/README.md" if path else "README.md"
    readme = reading.text_at(folder, commit, inside, _README_BYTES)
    return Look(
        commit,
        folders=tuple(one for one in found if one.is_folder)[:_MOST_ENTRIES],
        files=tuple(one for one in found if not one.is_folder)[:_MOST_ENTRIES],
        readme=rendered(readme),
        history=history,
        branches=branches,
    )


def _may_write(site: Site, user: UserRecord, repo: RepoRecord) -> bool:
    try:
        site.hub.repositories.writable(user, repo.kind, repo.owner, repo.name)
    except JumarError:
        return False
    return True


def rendered(readme: str) -> Markup:
    """A README as a piece of a page: nothing in it is taken for markup."""
    return render_readme(card.body_of(readme))


def _text(folder: Path, entry: Entry) -> str:
    """A file as text, or nothing where it is none or too large."""
    if entry.pointer is not None or entry.stored > _SHOWN_BYTES:
        return ""
    content = reading.content(folder, entry.oid)
    if b"\0" in content:
        return ""
    return content.decode("utf-8", "replace")
