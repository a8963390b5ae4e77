"""A log that is read, and sent as server-sent events while it grows, until its job is over.

Nothing is kept in memory: a piece is read when the one before it was taken. Offsets count bytes
of the file; `id` is always at the border of a character, so that a client can go on from it."""

import asyncio
import codecs
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from io import FileIO
from typing import Any

from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool

from jumar.errors import NotAllowed, NotFound, NotSignedIn
from jumar.server.edge.requests import Part
from jumar.server.edge.site import Site
from jumar.spec.records import JobSummary

CHUNK = 64 * 1024
POLL_S = 0.1
KEEP_ALIVE_S = 15.0
RIGHTS_S = 1.0
"""How often it is asked whether the follower may still follow."""
_MANY = 50
_BLOCK = 64 * 1024
_SEND_BLOCK = 256 * 1024
MOST_TAIL_BYTES = 16 << 20
_LONGEST_CHARACTER = 4


class OpenLog:
    """An open log, which may be huge and may still grow, read by place and backwards, in blocks.

    Reads do not move anything, so that threads may share it."""

    def __init__(self, file: FileIO) -> None:
        self._file = file

    def size(self) -> int:
        """How long it is now."""
        return os.fstat(self._file.fileno()).st_size

    def read(self, offset: int, count: int) -> bytes:
        """At most `count` bytes from `offset`; nothing at the end."""
        return os.pread(self._file.fileno(), count, offset)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def tail_offset(self, lines: int, end: int, most_bytes: int = MOST_TAIL_BYTES) -> int:
        """Where the last `lines` lines before `end` begin, at most `most_bytes` before it."""
        if lines <= 0:
            return end
        first = max(0, end - most_bytes)
        position, missing = end, lines
        while position > first:
            count = min(_BLOCK, position - first)
            block = self.read(position - count, count)
            # A newline at the very end closes the last line; it does not begin another.
            stop = len(block) - 1 if position == end and block.endswith(b"\n") else len(block)
            while (stop := block.rfind(b"\n", 0, stop)) >= 0:
                missing -= 1
                if missing == 0:
                    return position - count + stop + 1
            position -= count
        return first if first == 0 else self._character_start(first)

    def line_end(self, offset: int, end: int) -> int:
        """The end of the last whole line before `offset`, if there is one near; else `offset`."""
        if offset >= end:
            return end
        block = self.read(max(0, offset - _BLOCK), min(_BLOCK, offset))
        cut = block.rfind(b"\n") + 1
        return offset - len(block) + cut if cut else offset

    def _character_start(self, offset: int) -> int:
        """The first place from `offset` on that is not inside a UTF-8 character."""
        block = self.read(offset, _LONGEST_CHARACTER)
        inside = next((i for i, byte in enumerate(block) if byte & 0xC0 != 0x80), 0)
        return offset + inside


async def blocks(log: OpenLog, part: Part) -> AsyncIterator[bytes]:
    """The part, as it is taken; closes the file."""
    position = part.start
    try:
        while position < part.end:
            count = min(_SEND_BLOCK, part.end - position)
            block = await run_in_threadpool(log.read, position, count)
            if not block:
                return
            position += len(block)
            yield block
    finally:
        log.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a follower begins: at a byte, or some lines before the end."""

    offset: int = 0
    tail: int | None = None


class Decoder:
    """Bytes to text across the borders of pieces; what is not UTF-8 becomes U+FFFD."""

    def __init__(self, offset: int) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.offset = offset
        """The byte after the last character that was given out."""
        self.position = offset
        """The byte to read next."""

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text that is complete with `data`."""
        text = self._decoder.decode(data, final)
        self.position += len(data)
        pending, _ = self._decoder.getstate()
        self.offset = self.position - len(pending)
        return text


class Follower:
    """One client that follows one rank's log."""

    def __init__(
        self,
        site: Site,
        job_id: str,
        node: int,
        rank: int,
        start: Start,
        *,
        check_rights: Callable[[], None],
    ) -> None:
        """`check_rights` raises NotSignedIn or NotAllowed once the follower may no longer follow."""
        self._site = site
        self._check_rights = check_rights
        self._checked_at = time.monotonic()
        self._job_id = job_id
        self._place = (node, rank)
        self._start = start
        self._log: OpenLog | None = None
        self._decoder = Decoder(start.offset)
        self._seen_version = -1
        self._shown: tuple[str, str | None] | None = None
        self._is_final = False

    async def events(self) -> AsyncIterator[bytes]:
        """All events, until the job is over, the client is gone, may no longer follow, or the server
        ends."""
        quiet_since = time.monotonic()
        _following.add(self)
        try:
            while not self._site.closing.is_set():
                refusal = await self._refusal()
                if refusal:
                    yield refusal
                    return
                # The state comes before the log: once it is final, what is read is the rest.
                record = await self._look()
                if record is not None:
                    yield _event("state", _standing(record))
                data = await run_in_threadpool(self._read)
                event = self._log_event(data)
                if event:
                    quiet_since = time.monotonic()
                    yield event
                elif self._is_final and not data:
                    assert self._shown is not None
                    yield _event("end", {"state": self._shown[0]})
                    return
                if len(data) == CHUNK or self._is_final:
                    continue
                if time.monotonic() - quiet_since > KEEP_ALIVE_S:
                    quiet_since = time.monotonic()
                    yield b": keep-alive\n\n"
                await self._pause()
        finally:
            _following.discard(self)
            if self._log is not None:
                self._log.close()

    async def _refusal(self) -> bytes:
        """The event that ends the stream of who was suspended or whose token was taken back."""
        if time.monotonic() - self._checked_at < RIGHTS_S:
            return b""
        try:
            await run_in_threadpool(self._check_rights)
        except (NotAllowed, NotSignedIn) as error:
            return _event("refused", {**error.as_json()})
        self._checked_at = time.monotonic()
        return b""

    def _log_event(self, data: bytes) -> bytes:
        start = self._decoder.offset
        text = self._decoder.feed(data, final=self._is_final and not data)
        if not text:
            return b""
        return _event("log", {"text": text, "offset": start}, self._decoder.offset)

    async def _look(self) -> JobSummary | None:
        """The job, if it shows something new."""
        version = self._site.service.version
        if version == self._seen_version or self._is_final:
            return None
        record = await run_in_threadpool(self._site.service.glance, self._job_id)
        self._seen_version = version
        self._is_final = record.state.is_final
        shown = (record.state, record.reason)
        if shown == self._shown:
            return None
        self._shown = shown
        return record

    def _read(self) -> bytes:
        if self._log is None:
            try:
                self._log = OpenLog(self._site.service.open_log(self._job_id, *self._place))
            except NotFound:
                return b""
            if self._start.tail is not None:
                offset = self._log.tail_offset(self._start.tail, self._log.size())
                self._decoder = Decoder(offset)
        return self._log.read(self._decoder.position, CHUNK)

    async def _pause(self) -> None:
        try:
            pause_s = POLL_S * max(1.0, len(_following) / _MANY)
            await asyncio.wait_for(self._site.closing.wait(), pause_s)
        except TimeoutError:
            return


_following: set[Follower] = set()
"""All that are under way: where there are many, each looks less often."""


def _standing(record: JobSummary) -> dict[str, Any]:
    return {
        "state": record.state,
        "cause": record.cause,
        "values": dict(record.values),
        "reason": record.reason,
    }


def _event(name: str, data: dict[str, Any], offset: int | None = None) -> bytes:
    lines = b"" if offset is None else b"id: %d\n" % offset
    return lines + b"event: %s\ndata: %s\n\n" % (name.encode(), to_json(data))
