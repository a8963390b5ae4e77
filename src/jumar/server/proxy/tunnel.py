"""One request of a browser to an endpoint and its answer, or one websocket.

The head is read, judged and rewritten; of the rest exactly the body is passed on, so that nothing that
follows it reaches the job unseen, and nothing of a job passes for the answer to the next request: each
has a connection to the job of its own. Whoever reads slowly slows down its own job only."""

import asyncio
import html
import re
import socket
from collections.abc import AsyncIterator, Coroutine
from http import HTTPStatus
from typing import Any

from jumar.server.proxy.heads import (
    MOST_HEAD_BYTES,
    BadHead,
    RequestHead,
    ResponseHead,
    is_field,
    parse_request,
    parse_response,
)

HEAD_LIMIT_S = 15.0
ANSWER_LIMIT_S = 600.0
"""From the end of a request to the head of its answer."""
_BLOCK = 1 << 16
_MOST_LINE_BYTES = 1024
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_MOST_TRAILERS = 100
_MOST_THROWN_AWAY = 1 << 18
_REST_LIMIT_S = 1.0
"""For the rest of a request that has been answered."""
_END = b"\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Gone(Exception):
    """The other side has left."""


async def read_request(reader: asyncio.StreamReader, limit_s: float = HEAD_LIMIT_S) -> RequestHead:
    """The head of a request; BadHead, Gone."""
    try:
        async with asyncio.timeout(limit_s):
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

    def __init__(self, request: RequestHead, browser: Streams, job: Streams) -> None:
        self._request = request
        self._browser = browser
        self._job = job
        self.has_answered = False
        """Whether the browser has got some of an answer."""
        self._patience: asyncio.Timeout | None = None
        """With the head of an answer that is waited for."""

    async def run(self, *, scheme: str, keeps_nothing: bool) -> bool:
        """To the end of the answer, or of the websocket; whether the browser may ask for more over its
        connection. BadHead while nothing has been answered."""
        # Apart from the transport, which would forget what it has read when it cannot write.
        to_job: socket.socket = self._job[1].get_extra_info("socket").dup()
        to_job.setblocking(False)
        sending = asyncio.create_task(self._send(to_job, self._request.for_job(scheme)))
        answering = asyncio.create_task(self._answer(keeps_nothing))
        try:
            await asyncio.wait((sending, answering), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                # A job may answer before it has taken all.
                await asyncio.wait((sending,), timeout=_REST_LIMIT_S)
            else:
                sending.result()
                if self._patience is not None:
                    # Only now it is the job's turn: to send may take hours.
                    self._patience.reschedule(_now() + ANSWER_LIMIT_S)
                await answering
            return answering.result() and sending.done() and sending.result()
        finally:
            await _ended(sending, answering)
            to_job.close()

    async def _send(self, to_job: socket.socket, head: bytes) -> bool:
        """Whether the browser has said all; BadHead, Gone for what it does. Of what the job does not take,
        a little is thrown away, so that the next request can be told from it."""
        loop, left = asyncio.get_running_loop(), _MOST_THROWN_AWAY
        is_taken = await _taken(loop.sock_sendall(to_job, head))
        async for data in body_of(self._browser[0], self._request.length):
            is_taken = is_taken and await _taken(loop.sock_sendall(to_job, data))
            left -= 0 if is_taken else len(data)
            if left < 0:
                return False
        return True

    async def _answer(self, keeps_nothing: bool) -> bool:
        """Whether the browser knows where the answer ends without the connection ending."""
        answer = await self._heads(keeps_nothing)
        source, sink = self._job[0], self._browser[1]
        if answer.status == 101:
            await _both_ways(self._browser, self._job)
            return False
        if answer.has_body(self._request):
            if answer.ends_with_the_connection:
                return await _copy(source, sink)
            async for data in body_of(source, answer.length):
                await _write(sink, data)
        return not self._request.is_last

    async def _heads(self, keeps_nothing: bool) -> ResponseHead:
        """Pass on heads up to the one that is not merely interim."""
        while True:
            answer = parse_response(await self._head())
            if answer.status == 101 and not self._request.is_websocket:
                raise BadHead("the answer changes the protocol unasked", 502)
            if self._request.is_old and answer.is_chunked:
                raise BadHead("the answer comes in chunks, which HTTP/1.0 does not know", 502)
            if answer.is_interim and self._request.is_old:
                continue
            self.has_answered |= not answer.is_interim
            ends_here = answer.has_body(self._request) and answer.ends_with_the_connection
            closes = self._request.is_last or ends_here
            data = answer.for_browser(keeps_nothing=keeps_nothing, closes=closes)
            await _write(self._browser[1], data)
            if not answer.is_interim:
                return answer

    async def _head(self) -> bytes:
        try:
            async with asyncio.timeout(None) as self._patience:
                head = await self._job[0].readuntil(_END)
        except TimeoutError:
            raise BadHead("the job did not answer in time", 504) from None
        except asyncio.LimitOverrunError:
            words = f"the head of the answer is larger than {MOST_HEAD_BYTES} bytes"
            raise BadHead(words, 502) from None
        except (asyncio.IncompleteReadError, OSError):
            raise BadHead("what answers does not speak HTTP/1.1", 502) from None
        finally:
            self._patience = None
        return head[: -len(_END)]


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _ended(*tasks: "asyncio.Task[bool]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _taken(sending: Coroutine[Any, Any, None]) -> bool:
    try:
        await sending
    except OSError:
        return False
    return True


async def _both_ways(one: Streams, other: Streams) -> None:
    """Until both have said all, or either has left."""
    ways = ((one[0], other[1]), (other[0], one[1]))
    tasks = [asyncio.create_task(_copy(*way)) for way in ways]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _ended(*tasks)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> bool:
    """All to the end, and the end too; nothing can follow it."""
    try:
        while data := await source.read(_BLOCK):
            await _write(sink, data)
        if sink.can_write_eof():
            sink.write_eof()
    except OSError as error:
        raise Gone from error
    return False


async def _write(sink: asyncio.StreamWriter, data: bytes) -> None:
    try:
        sink.write(data)
        await sink.drain()
    except (OSError, RuntimeError) as error:
        raise Gone from error


async def body_of(reader: asyncio.StreamReader, length: int | None) -> AsyncIterator[bytes]:
    """Just the body, in chunks made anew where it comes in chunks; BadHead, Gone."""
    try:
        if length is not None:
            async for data in _exactly(reader, length):
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
        for _ in range(_MOST_TRAILERS):
            line = await reader.readuntil(b"\r\n")
            if line == b"\r\n":
                yield b"0\r\n\r\n"
                return
            if not is_field(line[:-2]):
                raise BadHead("what follows the last chunk is malformed")
        raise BadHead("too much follows the last chunk")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
        raise Gone from error


def _chunk_size(line: bytes) -> int:
    found = _CHUNK_LINE.fullmatch(line)
    # A bare line end in it, or `0x`, would be read differently by others.
    if found is None or len(line) > _MOST_LINE_BYTES:
        raise BadHead("a chunk has no size")
    return int(found[1], 16)


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
