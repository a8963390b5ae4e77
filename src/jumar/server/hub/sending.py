"""Files out: whole or in part, block by block, never faster than the client reads."""

import asyncio
import io
from typing import BinaryIO

from jumar.errors import RangeUnsatisfiable, TooSlow
from jumar.server.edge.requests import Part, parse_range
from jumar.server.hub.call import BLOCK_BYTES, Call, in_thread

# How long one block may take to be taken: a client that reads nothing is left.
PATIENCE_S = 120.0


async def send_file(call: Call, file: BinaryIO, size: int, headers: dict[str, str]) -> None:
    """The part of `file` that was asked for, or all of it; only the head for a HEAD."""
    headers = {**headers, "Accept-Ranges": "bytes"}
    try:
        part = parse_range(call.headers.get("range"), size) if size else None
    except RangeUnsatisfiable:
        await call.answer(416, b"", "text/plain", Content_Range=f"bytes */{size}")
        return
    status, wanted = (200, Part(0, size)) if part is None else (206, part)
    if part is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.end - 1}/{size}"
    headers["Content-Length"] = str(wanted.end - wanted.start)
    await call.start(status, headers)
    left = 0 if call.method == "HEAD" else wanted.end - wanted.start
    if left:
        await in_thread(file.seek, wanted.start)
    async with call.while_there():
        while left:
            block = await in_thread(file.read, min(BLOCK_BYTES, left))
            if not block:
                raise OSError("a stored file is shorter than it was")
            left -= len(block)
            await patiently(call, block, more=True)
        await patiently(call, b"", more=False)


async def send_bytes(call: Call, content: bytes, headers: dict[str, str]) -> None:
    """The same for what is in memory."""
    await send_file(call, io.BytesIO(content), len(content), headers)


async def patiently(call: Call, block: bytes, *, more: bool) -> None:
    """Send a block to a client that has to take it in time."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await call.send({"type": "http.response.body", "body": block, "more_body": more})
    except TimeoutError:
        raise TooSlow("the client does not read") from None
