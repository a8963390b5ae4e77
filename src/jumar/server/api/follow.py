"""A log that is sent as server-sent events while it grows, until its job is over.

Nothing is kept for one follower: a piece is read when the one before it was taken, and at the end of the log
by all together (`Tail`): who is further back, because they have only come or take slowly what they are sent,
reads by themselves and holds up nobody. Offsets count bytes of the file; `id` is always at the border of a character,
so that a client can go on from it."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from jumar.errors import BadInput, JumarError, NotAllowed, NotFound, NotSignedIn
from jumar.server.api.open_log import Decoder, OpenLog
from jumar.server.edge.auth import SeenJob, check_still_seen
from jumar.server.edge.requests import whole_number
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.records import JobSummary

router = APIRouter(tags=["logs"], prefix="/jobs/{job}/logs")
MOST_LINES = 1_000_000
MOST_OFFSET = 1 << 62
Node = Annotated[int, Path(ge=0, le=100_000)]
Rank = Annotated[int, Path(ge=0, le=1_000_000)]
LastLines = Annotated[int | None, Query(ge=0, le=MOST_LINES, description="only the last lines")]
KEEP_ALIVE_S = 15.0
CHUNK = 64 * 1024
POLL_S = 0.1
LONGEST_POLL_S = 0.2
BEAT_S = 1.0
"""How often those who wait are woken although nothing came: they have other things to ask."""
RIGHTS_S = BEAT_S
"""How often it is asked whether the follower may still follow."""
MOST_LOOKS = 1000
"""In a second, at all logs together: each takes a thread for a moment."""
_MANY = 50
_MOST_PIECES = 8


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text of a log, as it is sent."""

    start: int
    end: int
    event: bytes
    is_last: bool
    """Whether nothing came after it when it was read."""


class Tail:
    """The end of one log while it is followed: read once, and made into an event once, for all who do. Only the
    last few pieces are kept. Used by the event loop, apart from `open`."""

    def __init__(self, site: Site, job_id: str, node: int, rank: int) -> None:
        self._site = site
        self._job_id = job_id
        self._place = (node, rank)
        self._log: OpenLog | None = None
        self._opening = threading.Lock()
        self._decoder = Decoder(0)
        self._pieces: deque[Piece] = deque(maxlen=_MOST_PIECES)
        self._woken = asyncio.Event()
        self._waiting = 0
        self._reading: asyncio.Task[None] | None = None
        self._failure: OSError | JumarError | None = None
        self.followers = 0

    def open(self) -> OpenLog | None:
        """The log, which all share; None while there is none. Waits for the disk."""
        with self._opening:
            if self._log is None:
                try:
                    self._log = OpenLog(self._site.service.open_log(self._job_id, *self._place))
                except NotFound:
                    return None
            return self._log

    def piece_at(self, offset: int) -> Piece | None:
        """What comes after `offset`, if it was read lately."""
        return next((piece for piece in self._pieces if piece.start == offset), None)

    @property
    def offset(self) -> int:
        """How far it was read for all."""
        return self._decoder.offset

    async def wait(self, offset: int | None) -> None:
        """For anything new, of who has read as far as `offset` and found no more; without one, of who is not
        anywhere in the log yet."""
        if self._failure is not None:
            raise self._failure
        if offset is not None and offset > self.offset and not self._waiting:
            # Nobody needs what comes before: from here on it is read for all.
            self._decoder = Decoder(offset)
            self._pieces.clear()
        is_news = offset is not None and self.piece_at(offset) is not None
        if is_news or self._site.closing.is_set():
            return
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_on())
        self._waiting += offset is not None
        try:
            await self._woken.wait()
        finally:
            self._waiting -= offset is not None

    def close(self) -> None:
        """Nobody follows it any more."""
        if self._reading is None or self._reading.done():
            self._close_log()
        else:
            # A read that is under way has its file until it is done.
            self._reading.add_done_callback(lambda _: self._close_log())
            self._reading.cancel()

    def _close_log(self) -> None:
        if self._log is not None:
            self._log.close()

    async def _read_on(self) -> None:
        version, beat_at = -1, time.monotonic() + BEAT_S
        while not self._site.closing.is_set():
            await asyncio.sleep(_pause_s())
            was_open = self._log is not None
            try:
                if self._waiting:
                    await self._advance()
                elif self._log is None:
                    await run_in_threadpool(self.open)
            except (OSError, JumarError) as error:
                self._failure = error
                break
            before, version = version, self._site.service.version
            now = time.monotonic()
            if version != before or now >= beat_at or (self._log is not None) != was_open:
                beat_at = now + BEAT_S
                self._wake()
        self._wake()

    async def _advance(self) -> None:
        """Read on for those who wait."""
        decoder = self._decoder
        data = await run_in_threadpool(self._read, decoder.position)
        if decoder is not self._decoder:
            # Who waited is gone, and somebody who has come was further.
            return
        start = decoder.offset
        text = decoder.feed(data)
        if text:
            event = log_event(text, start, decoder.offset)
            self._pieces.append(Piece(start, decoder.offset, event, len(data) < CHUNK))
            self._wake()

    def _read(self, position: int) -> bytes:
        log = self.open()
        return b"" if log is None else log.read(position, CHUNK)

    def _wake(self) -> None:
        self._woken.set()
        self._woken = asyncio.Event()


_tails: dict[tuple[int, str, int, int], Tail] = {}


@contextmanager
def followed(site: Site, job_id: str, node: int, rank: int) -> Generator[Tail]:
    """The tail of a log, the same for all who follow it at the same time."""
    key = (id(site), job_id, node, rank)
    tail = _tails.get(key)
    if tail is None:
        tail = _tails[key] = Tail(site, job_id, node, rank)
    tail.followers += 1
    try:
        yield tail
    finally:
        tail.followers -= 1
        if not tail.followers:
            del _tails[key]
            tail.close()


def _pause_s() -> float:
    """Between two looks at a log: where many follow, each is looked at less often."""
    # Each has a follower at least: no more of them have to be asked until the longest pause is sure.
    followers = sum(tail.followers for tail in islice(_tails.values(), 2 * _MANY))
    pause_s = min(LONGEST_POLL_S, POLL_S * max(1.0, followers / _MANY))
    return max(pause_s, len(_tails) / MOST_LOOKS)


def log_event(text: str, start: int, end: int) -> bytes:
    """As followers are sent it."""
    return event_of("log", {"text": text, "offset": start}, end)


def event_of(name: str, data: dict[str, Any], offset: int | None = None) -> bytes:
    """One server-sent event; `offset` becomes its id."""
    lines = b"" if offset is None else b"id: %d\n" % offset
    return lines + b"event: %s\ndata: %s\n\n" % (name.encode(), to_json(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a follower begins: at a byte, or some lines before the end."""

    offset: int = 0
    tail: int | None = None


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
        check_rights: Callable[[], Awaitable[None]],
    ) -> None:
        """`check_rights` raises NotSignedIn or NotAllowed once the follower may no longer follow."""
        self._site = site
        self._check_rights = check_rights
        self._checked_at = time.monotonic()
        self._job_id = job_id
        self._place = (node, rank)
        self._start = start
        self._has_begun = False
        """Whether the log was there, and with it the place to begin at."""
        self._is_at_end = False
        """Whether nothing came after what was read last."""
        self._is_beyond = True
        """Whether the log does not reach to where this follower is."""
        self._decoder = Decoder(start.offset)
        self._seen_version = -1
        self._shown: tuple[str, str | None] | None = None
        self._is_final = False

    async def events(self) -> AsyncIterator[bytes]:
        """All events, until the job is over, the client is gone, may no longer follow, or the server
        ends."""
        quiet_since = time.monotonic()
        with followed(self._site, self._job_id, *self._place) as tail:
            while not self._site.closing.is_set():
                refusal = await self._refusal()
                if refusal:
                    yield refusal
                    return
                # The state comes before the log: once it is final, what is read is the rest.
                record = await self._look()
                if record is not None:
                    yield event_of("state", _standing(record))
                event = self._shared(tail) or await self._own(tail)
                if event:
                    quiet_since = time.monotonic()
                    yield event
                elif self._is_final and self._is_at_end:
                    assert self._shown is not None
                    yield event_of("end", {"state": self._shown[0]})
                    return
                elif self._is_at_end:
                    if time.monotonic() - quiet_since > KEEP_ALIVE_S:
                        quiet_since = time.monotonic()
                        yield b": keep-alive\n\n"
                    await tail.wait(None if self._is_beyond else self._decoder.offset)

    async def _refusal(self) -> bytes:
        """The event that ends the stream of who was suspended or whose token was taken back."""
        if time.monotonic() - self._checked_at < RIGHTS_S:
            return b""
        try:
            await self._check_rights()
        except (NotAllowed, NotSignedIn) as error:
            return event_of("refused", {**error.as_json()})
        self._checked_at = time.monotonic()
        return b""

    def _shared(self, tail: Tail) -> bytes:
        """What comes next, where it was read for all."""
        if self._is_final or self._is_beyond:
            return b""
        piece = tail.piece_at(self._decoder.offset)
        if piece is None:
            return b""
        self._decoder = Decoder(piece.end)
        self._is_at_end = piece.is_last
        return piece.event

    async def _own(self, tail: Tail) -> bytes:
        """What comes next, read for this follower alone; nothing, and at once, at the end that all wait at."""
        waits = self._is_at_end and not self._is_final and not self._is_beyond
        if waits and self._decoder.offset == tail.offset:
            return b""
        # To where the others are, and not past them: from there on one read serves all.
        behind = 0 if self._is_final else tail.offset - self._decoder.position
        count = min(CHUNK, behind) if behind > 0 else CHUNK
        data = await run_in_threadpool(self._read, tail, count)
        self._is_at_end = len(data) < CHUNK and not (self._is_final and data)
        start = self._decoder.offset
        text = self._decoder.feed(data, final=self._is_final and not data)
        return log_event(text, start, self._decoder.offset) if text else b""

    async def _look(self) -> JobSummary | None:
        """The job, if it shows something new."""
        version = self._site.service.version
        if version == self._seen_version or self._is_final:
            return None
        row = self._site.service.at_hand(self._job_id)
        if row is None:
            record = await run_in_threadpool(self._site.service.glance, self._job_id)
        else:
            record = row.summary()
        self._seen_version = version
        self._is_final = record.state.is_final
        shown = (record.state, record.reason)
        if shown == self._shown:
            return None
        self._shown = shown
        return record

    def _read(self, tail: Tail, count: int) -> bytes:
        log = tail.open()
        if log is None:
            return b""
        if not self._has_begun:
            self._has_begun = True
            if self._start.tail is not None:
                self._decoder = Decoder(log.tail_offset(self._start.tail, log.size()))
        data = log.read(self._decoder.position, count)
        self._is_beyond = not data and log.size() < self._decoder.position
        return data


def _standing(record: JobSummary) -> dict[str, Any]:
    return {
        "state": record.state,
        "cause": record.cause,
        "values": dict(record.values),
        "reason": record.reason,
    }


@router.get(
    "/{node}/{rank}/stream",
    response_class=StreamingResponse,
    summary="Follow a log",
    responses={200: {"content": {"text/event-stream": {}}}},
)
async def follow_log(
    request: Request,
    opened: SeenJob,
    site: SiteOf,
    node: Node,
    rank: Rank,
    offset: Annotated[int | None, Query(ge=0, le=MOST_OFFSET)] = None,
    tail: LastLines = None,
) -> Response:
    """Server-sent events `log`, `state` and, when the job is over, `end`; `refused` ends the stream of
    a user who may no longer see the job.

    `id` is the byte after the piece; sent back as `Last-Event-ID`, the stream goes on there. A job
    that has not started yet is waited for."""
    start = Start(offset=offset or 0, tail=tail if offset is None else None)
    resumed = request.headers.get("last-event-id")
    if resumed is not None:
        place = whole_number(resumed, most=MOST_OFFSET)
        if place is None:
            raise BadInput("Last-Event-ID is not an offset")
        start = Start(offset=place)
    check = partial(check_still_seen, site, request, opened)
    follower = Follower(site, opened.id, node, rank, start, check_rights=check)
    return StreamingResponse(
        follower.events(),
        media_type="text/event-stream",
        # Proxies that collect an answer before they pass it on would make it late.
        headers={"X-Accel-Buffering": "no"},
    )
