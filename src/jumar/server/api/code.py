"""Code archives over REST: ask whether one is there, upload one. Never whole in memory."""

from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.server.edge.auth import Member
from jumar.server.edge.exchange import answer, too_large
from jumar.server.edge.requests import in_blocks, whole_number
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.fields import ArchivedCode

router = APIRouter(tags=["code"])
MOST_BYTES = 2 << 30
_BLOCK_BYTES = 1 << 20
# Looking into an archive takes a core for as long as it has headers.
_looking = CapacityLimiter(2)
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}},
    }
}
Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="SHA-256 of the tar file")]


@router.head("/code/{digest}", status_code=204, summary="Is this code here?")
async def has_code(site: SiteOf, _user: Member, digest: Digest) -> Response:
    """204 if it was uploaded before, 404 if not."""
    found = await run_in_threadpool(site.service.archives.has, digest)
    return Response(status_code=204 if found else 404)


@router.put(
    "/code/{digest}",
    status_code=204,
    summary="Upload code",
    openapi_extra=_BODY,
)
async def put_code(request: Request, site: SiteOf, user: Member, digest: Digest) -> Response:
    """Send a tar file; it is kept if its SHA-256 is the one in the address."""
    await _receive(request, site, user.name, digest)
    return Response(status_code=204)


@router.post(
    "/code",
    status_code=201,
    response_model=ArchivedCode,
    summary="Upload code",
    openapi_extra=_BODY,
)
async def post_code(request: Request, site: SiteOf, user: Member) -> Response:
    """Send a tar file; the answer is what to write as a job's `code`. For clients that cannot hash, as
    browsers without TLS."""
    return answer({"archive": await _receive(request, site, user.name, None)}, 201)


async def _receive(request: Request, site: Site, user: str, digest: str | None) -> str:
    declared = request.headers.get("content-length", "0")
    if whole_number(declared, most=MOST_BYTES) is None:
        raise too_large(MOST_BYTES)
    async with site.uploads.place(user):
        await run_in_threadpool(site.service.disk.check, user, int(declared))
        incoming = await run_in_threadpool(site.service.archives.begin, digest, user)
        try:
            async for block in in_blocks(request.stream(), _BLOCK_BYTES):
                await run_in_threadpool(incoming.write, block)
            # What was declared may be less, and others of the same user may have come meanwhile.
            found = incoming.digest
            await run_in_threadpool(site.service.disk.count_code, user, found, incoming.size)
            kept = ""
            try:
                kept = await to_thread.run_sync(incoming.finish, limiter=_looking)
            finally:
                if not kept:
                    site.service.code.failed(found)
            return kept
        finally:
            incoming.close()
