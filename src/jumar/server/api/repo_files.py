"""Files into a repository over REST, for who has no git: each is sent as an object, then all are committed."""

from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.hub.names import OID, check_path
from jumar.hub.reading import MAIN
from jumar.server.api.repos import WritableRepo
from jumar.server.edge.auth import Member
from jumar.server.edge.exchange import Body, answer, too_large
from jumar.server.edge.requests import in_blocks, whole_number
from jumar.server.edge.site import SiteOf
from jumar.spec.repos import CommitRecord, ObjectRecord

router = APIRouter(tags=["hub"])
_BLOCK_BYTES = 4 << 20
_MOST_FILES = 10_000
# Each holds a core.
_hashing = CapacityLimiter(8)
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
Oid = Annotated[str, Field(pattern=f"^{OID.pattern}$")]
Path = Annotated[str, Field(min_length=1, max_length=4096)]


class Wanted(Body):
    """What somebody is about to send."""

    objects: Annotated[dict[Oid, Annotated[int, Field(ge=0)]], Field(max_length=_MOST_FILES)]
    """Sizes by SHA-256."""


class NewCommit(Body):
    """What a commit shall change."""

    files: Annotated[dict[Path, Oid], Field(default_factory=dict, max_length=_MOST_FILES)]
    """SHA-256 by path."""
    deleted: Annotated[list[Path], Field(default_factory=list, max_length=_MOST_FILES)]
    branch: Annotated[str, Field(max_length=200)] = MAIN
    message: Annotated[str, Field(max_length=4096)] = ""


@router.post(
    "/repos/{kind}/{owner}/{name}/missing",
    response_model=list[str],
    summary="Which files have to be sent?",
)
async def missing(site: SiteOf, user: Member, repo: WritableRepo, wanted: Wanted) -> Response:
    """Those of these objects whose bytes the server needs."""

    def look() -> list[str]:
        here = site.hub.objects.offer(user, repo, wanted.objects)
        left = {oid: size for oid, size in wanted.objects.items() if oid not in here}
        site.hub.repositories.check_room(repo, sum(left.values()))
        return sorted(left)

    return answer(await run_in_threadpool(look))


@router.post(
    "/repo-objects/{kind}/{owner}/{name}",
    status_code=201,
    response_model=ObjectRecord,
    summary="Send a file",
    openapi_extra=_BODY,
)
async def send(request: Request, site: SiteOf, user: Member, repo: WritableRepo) -> Response:
    """The bytes of one file; the answer is what a commit calls it by."""
    most = site.hub.repositories.limits.object_bytes
    size = whole_number(request.headers.get("content-length", ""), most=most)
    if size is None:
        raise too_large(most)
    await run_in_threadpool(site.hub.repositories.check_room, repo, size)
    async with site.uploads.place(user.name):
        with site.hub.objects.incoming(repo, None, size) as incoming:
            async for block in in_blocks(request.stream(), _BLOCK_BYTES):
                await to_thread.run_sync(incoming.write, block, limiter=_hashing)
            kept = await to_thread.run_sync(incoming.keep, limiter=_hashing)
    return answer(ObjectRecord(oid=kept.oid, size=kept.size), 201)


@router.post(
    "/repos/{kind}/{owner}/{name}/commits",
    status_code=201,
    response_model=CommitRecord,
    summary="Commit files",
)
async def commit(site: SiteOf, user: Member, repo: WritableRepo, wanted: NewCommit) -> Response:
    """Files that were sent before, under their paths. Those that are the same already change nothing."""

    def make() -> str:
        for path in (*wanted.files, *wanted.deleted):
            check_path(path)
        message = wanted.message or f"Upload {len(wanted.files)} files"
        return site.hub.deposits.commit(
            repo, wanted.branch, user.name, message, wanted.files, deleted=wanted.deleted
        )

    return answer(CommitRecord(commit=await run_in_threadpool(make)), 201)
