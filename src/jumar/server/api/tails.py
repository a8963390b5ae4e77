"""The end of a log that somebody watches grow: read once, and made into an event once, for all who do.

Only the last few pieces are kept. Who is further back, because they have only come or take slowly what they
are sent, reads by themselves until they are at the end: they hold up nobody, and nothing is kept for them."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool

from jumar.errors import JumarError, NotFound
from jumar.server.api.open_log import Decoder, OpenLog
from jumar.server.edge.site import Site

CHUNK = 64 * 1024
POLL_S = 0.1
LONGEST_POLL_S = 0.2
BEAT_S = 1.0
"""How often those who wait are woken although nothing came: they have other things to ask."""
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
    """One log, while it is followed. Used by the event loop, apart from `open`."""

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
