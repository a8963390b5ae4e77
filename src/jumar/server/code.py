"""Code archives over REST: ask whether one is there, upload one. Never whole in memory."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import BadInput
from jumar.server.auth import Member
from jumar.server.exchange import BodyTooLarge
from jumar.server.site import SiteOf

router = APIRouter(tags=["code"])
MOST_BYTES = 2 << 30
SILENCE_LIMIT_S = 60.0
# An upload holds a thread for as long as the client sends.
_uploads = CapacityLimiter(8)
Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="SHA-256 of the tar file")]


@router.head("/code/{digest}", status_code=204, summary="Is this code here?")
async def has_code(site: SiteOf, _user: Member, digest: Digest) -> Response:
    """204 if it was uploaded before, 404 if not."""
    found = await run_in_threadpool(site.service.has_code, digest)
    return Response(status_code=204 if found else 404)


@router.put(
    "/code/{digest}",
    status_code=204,
    summary="Upload code",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def put_code(request: Request, site: SiteOf, _user: Member, digest: Digest) -> Response:
    """Send a tar file; it is kept if its SHA-256 is the one in the address."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > MOST_BYTES:
        raise BodyTooLarge(MOST_BYTES)
    chunks = _from_thread(request.stream(), asyncio.get_running_loop())
    await to_thread.run_sync(site.service.receive_code, digest, chunks, limiter=_uploads)
    return Response(status_code=204)


def _from_thread(stream: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> Iterator[bytes]:
    """`stream`, read from a thread; the next chunk is only asked for when one was used."""

    async def following() -> bytes | None:
        return await anext(stream, None)

    while True:
        future = asyncio.run_coroutine_threadsafe(following(), loop)
        try:
            chunk = future.result(timeout=SILENCE_LIMIT_S)
        except TimeoutError:
            future.cancel()
            raise BadInput(f"the upload stood still for {SILENCE_LIMIT_S:.0f} s") from None
        if chunk is None:
            return
        yield chunk
