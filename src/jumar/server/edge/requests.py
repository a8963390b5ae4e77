"""What comes in, checked before any route is asked: the head of a request or of a websocket handshake,
the texts in it, the body, and numbers in headers.

Strange hosts (DNS rebinding) and other web sites are refused, and text that cannot be kept, whatever
field it is for: address and query are checked as they are decoded, small bodies as JSON or as a form.
What is not JSON at all is left to the route, which says so. Bodies are bounded in size, and given up
when the client that sends one is too slow. Only the time in which the server waits for the client
counts; a full disk or a busy machine makes nobody slow."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import SplitResult, parse_qsl, urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from jumar.errors import (
    BadInput,
    HeadTooLarge,
    NotAllowed,
    RangeUnsatisfiable,
    TooSlow,
    WrongMediaType,
)
from jumar.server.edge.exchange import too_large
from jumar.spec.text import flaw_of, flaws

_FORM = "application/x-www-form-urlencoded"


def check_address(path: str, query: bytes) -> None:
    """Refuse a path or a query that holds what cannot be kept."""
    _check("path", path)
    if b"%" in query or not query.isascii():
        _check_pairs(query)


def check_body(body: bytes, headers: Headers) -> None:
    """Refuse a body with such text, naming the field."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind.startswith("multipart/"):
        # Its parts may come in any encoding that Python knows; our forms do not use it.
        raise WrongMediaType("multipart forms are not accepted", hint=f"send JSON or {_FORM}")
    if kind == _FORM:
        _check_pairs(body)
        return
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return
    found = [f"{'.'.join(map(str, place)) or 'body'}: {words}" for place, words in flaws(data)]
    if found:
        raise BadInput("\n".join(found))


def _check_pairs(encoded: bytes) -> None:
    pairs = parse_qsl(encoded.decode("latin-1"), keep_blank_values=True)
    for name, value in pairs:
        _check("name of a field", name)
        _check(name, value)


def _check(field: str, text: str) -> None:
    words = flaw_of(text)
    if words is not None:
        raise BadInput(f"{field}: {words}")


MOST_HEAD_BYTES = 64 << 10


def check_head(
    scope: Scope, *, loopback_only: bool, may_change: bool, public_url: str = ""
) -> Headers:
    """The headers, if the head is one that this server takes.

    `may_change`: whether the browser of a user who is signed in could change something by it. `public_url`:
    where a proxy on this machine takes requests for us, and how it may name us."""
    headers = Headers(scope=scope)
    size = sum(len(name) + len(value) for name, value in headers.raw)
    if size + len(scope["raw_path"]) + len(scope["query_string"]) > MOST_HEAD_BYTES:
        raise HeadTooLarge(f"address and headers are larger than {MOST_HEAD_BYTES} bytes")
    # Read for every request: addresses that answers quote are made from it.
    host = _parts(f"//{headers.get('host', '')}").hostname or ""
    if loopback_only and host != _parts(public_url).hostname:
        _check_host(host)
    if may_change:
        _check_origin(headers, public_url)
    check_address(scope["path"], scope["query_string"])
    return headers


def _check_host(host: str) -> None:
    """A page of another site whose name was bent to 127.0.0.1 sends its own name here."""
    if host != "localhost" and not _is_loopback(host):
        raise BadInput(
            f"this server answers to localhost only, not to {host!r}",
            hint="to serve a network, set JUMAR_HOST to an address of this machine;"
            " behind a proxy, give its address: --public-url",
        )


def _check_origin(headers: Headers, public_url: str) -> None:
    """Browsers say where a request comes from; programs send neither header. Behind a proxy the address that
    the browser knows is another one than ours; no page of another site can have it sent."""
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    forwarded = (headers.get("x-forwarded-host") or "").partition(",")[0].strip()
    own = {headers.get("host"), forwarded, _parts(public_url).netloc} - {"", None}
    foreign = origin is not None and _parts(origin).netloc not in own
    if foreign or site not in (None, "same-origin", "none"):
        raise NotAllowed("requests sent by another web site are refused")


def _parts(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError as error:
        raise BadInput(f"{address[:100]!r} is not an address") from error


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


async def in_blocks(stream: AsyncIterable[bytes], size: int) -> AsyncIterator[bytes]:
    """`stream` in larger pieces: a thread is asked for once per piece, and only to write it."""
    block = bytearray()
    async for chunk in stream:
        block += chunk
        if len(block) >= size:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


def whole_number(text: str, *, most: int) -> int | None:
    """The number that `text` is, if it is one from 0 to `most`."""
    # Python refuses to read thousands of digits, so they are counted first.
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(most)):
        return None
    number = int(text)
    return number if number <= most else None


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes from `start` up to, not including, `end`."""

    start: int
    end: int


def parse_range(header: str | None, size: int) -> Part | None:
    """The part asked for; None when the whole is to be sent.

    Several ranges at once, other units and nonsense are answered with the whole, as HTTP allows."""
    match = _RANGE.fullmatch((header or "").strip().replace(" ", ""))
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match[1], match[2]
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1 if last else size)
        if last and int(last) < start:
            return None
    if start >= end:
        raise RangeUnsatisfiable(
            f"the range begins after the end: there are {size} bytes", size=size
        )
    return Part(start, end)


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
