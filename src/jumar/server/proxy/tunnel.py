"""One connection of a browser to an endpoint: one request, or one websocket.

The head is read, judged and rewritten; of the rest exactly the body is passed on, so that nothing that
follows it reaches the job unseen. Whoever reads slowly slows down its own job only."""

import asyncio
import html
from collections.abc import AsyncIterator
from http import HTTPStatus

from jumar.server.proxy.heads import (
    MOST_HEAD_BYTES,
    BadHead,
    RequestHead,
    ResponseHead,
    parse_request,
    parse_response,
)

HEAD_LIMIT_S = 15.0
ANSWER_LIMIT_S = 600.0
"""From the end of a request to the head of its answer."""
_BLOCK = 1 << 16
_MOST_LINE_BYTES = 1024
_END = b"\r\n\r\n"


class Gone(Exception):
    """The other side has left."""


async def read_request(reader: asyncio.StreamReader) -> RequestHead:
    """The head of a request; BadHead, Gone."""
    try:
        async with asyncio.timeout(HEAD_LIMIT_S):
            head = await reader.readuntil(_END)
    except TimeoutError:
        raise BadHead("the request did not arrive in time", 408) from None
    except asyncio.LimitOverrunError:
        raise BadHead(f"the head is larger than {MOST_HEAD_BYTES} bytes", 431) from None
    except (asyncio.IncompleteReadError, ConnectionError, OSError) as error:
        raise Gone from error
    return parse_request(head[: -len(_END)])


class Exchange:
    """A request that may be passed on, and the connection to the job that it goes to."""

    def __init__(
        self,
        request: RequestHead,
        browser: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        job: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._request = request
        self._browser = browser
        self._job = job
        self.has_answered = False
        """Whether the browser has got some of an answer."""

    async def run(self, *, scheme: str, keeps_nothing: bool) -> None:
        """To the end of the answer, or of the websocket; BadHead while nothing has been answered."""
        from_browser, _ = self._browser
        _, to_job = self._job
        to_job.write(self._request.for_job(scheme))
        sending = asyncio.create_task(_send(_body(from_browser, self._request), to_job))
        answering = asyncio.create_task(self._answer(keeps_nothing))
        await _together(sending, answering)

    async def _answer(self, keeps_nothing: bool) -> None:
        answer = await self._heads(keeps_nothing)
        if answer.status == 101:
            ways = [(self._browser[0], self._job[1]), (self._job[0], self._browser[1])]
            await _together(*(asyncio.create_task(_copy(*way)) for way in ways))
        else:
            await _copy(self._job[0], self._browser[1])

    async def _heads(self, keeps_nothing: bool) -> ResponseHead:
        """Pass on heads up to the one that is not merely interim."""
        while True:
            try:
                async with asyncio.timeout(ANSWER_LIMIT_S):
                    head = await self._job[0].readuntil(_END)
            except TimeoutError:
                raise BadHead("the job did not answer in time", 504) from None
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
                raise BadHead("what answers does not speak HTTP/1.1", 502) from None
            answer = parse_response(head[: -len(_END)])
            if answer.status == 101 and not self._request.is_websocket:
                raise BadHead("the answer changes the protocol unasked", 502)
            self.has_answered |= not answer.is_interim
            await _write(self._browser[1], answer.for_browser(keeps_nothing=keeps_nothing))
            if not answer.is_interim:
                return answer


async def _together(*tasks: "asyncio.Task[None]") -> None:
    """Until the last has ended well, or the first has not."""
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """All to the end, and the end too."""
    try:
        while data := await source.read(_BLOCK):
            await _write(sink, data)
        if sink.can_write_eof():
            sink.write_eof()
    except OSError as error:
        raise Gone from error


async def _send(body: AsyncIterator[bytes], sink: asyncio.StreamWriter) -> None:
    async for data in body:
        await _write(sink, data)


async def _write(sink: asyncio.StreamWriter, data: bytes) -> None:
    try:
        sink.write(data)
        await sink.drain()
    except (OSError, RuntimeError) as error:
        raise Gone from error


async def _body(reader: asyncio.StreamReader, request: RequestHead) -> AsyncIterator[bytes]:
    """Just the body, in chunks made anew where it comes in chunks; BadHead, Gone."""
    try:
        if request.length is not None:
            async for data in _exactly(reader, request.length):
                yield data
            return
        while size := _chunk_size(await reader.readuntil(b"\r\n")):
            yield b"%x\r\n" % size
            async for data in _exactly(reader, size):
                yield data
            if await reader.readexactly(2) != b"\r\n":
                raise BadHead("a chunk is longer than it says")
            yield b"\r\n"
        # What may follow are headers that nobody has checked.
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
        yield b"0\r\n\r\n"
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
        raise Gone from error


def _chunk_size(line: bytes) -> int:
    digits = line[:-2].partition(b";")[0].rstrip(b" \t")
    if not 1 <= len(digits) <= 15 or len(line) > _MOST_LINE_BYTES:
        raise BadHead("a chunk has no size")
    try:
        if not digits.isalnum():
            raise ValueError
        return int(digits, 16)
    except ValueError:
        raise BadHead("a chunk has no size") from None


async def _exactly(reader: asyncio.StreamReader, count: int) -> AsyncIterator[bytes]:
    while count:
        data = await reader.read(min(_BLOCK, count))
        if not data:
            raise Gone
        count -= len(data)
        yield data


def own_answer(status: int, words: str, *headers: tuple[str, str]) -> bytes:
    """An answer of the proxy itself, with a page that says no more than `words`."""
    body = (
        f"<!doctype html><meta charset=utf-8><title>jumar</title><p>{html.escape(words)}\n".encode()
    )
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Content-Security-Policy: default-src 'none'",
        "Cache-Control: no-store",
        "Connection: close",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
