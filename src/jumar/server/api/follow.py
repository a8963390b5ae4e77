"""A log that is sent as server-sent events while it grows, until its job is over.

Nothing is kept for one follower: a piece is read when the one before it was taken, and at the end of the log
by all together (`tails.py`). Offsets count bytes of the file; `id` is always at the border of a character,
so that a client can go on from it."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from jumar.errors import NotAllowed, NotSignedIn
from jumar.server.api.open_log import Decoder
from jumar.server.api.tails import BEAT_S, CHUNK, Tail, event_of, followed, log_event
from jumar.server.edge.site import Site
from jumar.spec.records import JobSummary

KEEP_ALIVE_S = 15.0
RIGHTS_S = BEAT_S
"""How often it is asked whether the follower may still follow."""


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
