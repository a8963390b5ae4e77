"""Bodies of requests: bounded in size, and given up when the client that sends one is too slow.

Only the time in which the server waits for the client counts; a full disk or a busy machine makes
nobody slow."""

import asyncio
import time

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from jumar.errors import TooSlow
from jumar.server.edge.exchange import too_large
from jumar.server.edge.ranges import whole_number

MOST_BODY_BYTES = 1 << 20
SILENCE_LIMIT_S = 15.0
LEAST_BYTES_PER_S = 2048
# Before that a pace says nothing.
_PACE_FROM_S = 30.0


def paced(receive: Receive) -> Receive:
    """`receive`, failing once the client is silent, or slower than any network, amid a body."""
    is_whole, received, waited_s = False, 0, 0.0

    async def following() -> Message:
        nonlocal is_whole, received, waited_s
        if is_whole:
            # What follows a body is the end of the connection; there is no hurry.
            return await receive()
        began = time.monotonic()
        try:
            async with asyncio.timeout(SILENCE_LIMIT_S):
                message = await receive()
        except TimeoutError:
            words = f"nothing more of the request came for {SILENCE_LIMIT_S:.0f} s"
            raise TooSlow(words, hint="send it again") from None
        waited_s += time.monotonic() - began
        received += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if not is_whole and waited_s > _PACE_FROM_S and received < waited_s * LEAST_BYTES_PER_S:
            raise TooSlow(
                f"the request came slower than {LEAST_BYTES_PER_S} bytes per second",
                hint="send it again over a better connection",
            )
        return message

    return following


async def whole(receive: Receive, headers: Headers) -> tuple[bytes, Receive]:
    """The body, no larger than any JSON that is taken, and a `receive` that begins with it."""
    declared = headers.get("content-length", "0")
    if whole_number(declared, most=MOST_BODY_BYTES) is None:
        raise too_large(MOST_BODY_BYTES)
    if declared == "0" and "transfer-encoding" not in headers:
        return b"", receive
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > MOST_BODY_BYTES:
            raise too_large(MOST_BODY_BYTES)
        if not message.get("more_body", False):
            break
    is_given = False

    async def again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    return bytes(body), again
