"""The logs that are given, and what each tells of: opened, read, and closed again."""

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from jumar.errors import JumarError
from jumar.why.event import Event
from jumar.why.events import events_of
from jumar.why.reading import Line, lines_of
from jumar.why.scan import regions

_STRAY = 4
"""So many NULs may stand in a log below its first line."""
_SURVIVED = 64 * 1024
"""Bytes of a log without a fault after one: whoever wrote them went on."""
_BEFORE, _AFTER = 6 * 1024, 6 * 1024
"""How much is read around the line that was chosen for what else is said there."""
_FAR_BEFORE, _FAR_AFTER = 48 * 1024, 32 * 1024
"""And for what decides between the things that it may mean: beyond a deep stack, all threads of a dump, what was
installed at the start of a build."""
_TAIL = 16 * 1024
"""How much of a log's end is read where nothing in it is known."""
_LONG_BEFORE = 1 << 20
"""How much is searched above it for when something began."""


@dataclass(frozen=True, slots=True)
class Source:
    """A log: what to call it, how to open it, and whose it is where that is known."""

    name: str
    open: Callable[[], int]
    """A descriptor, which is closed after use; OSError."""
    rank: int | None = None
    is_accused: bool = False
    """The platform saw this rank fail first."""


@dataclass(slots=True)
class Sign:
    """An event and the log that it is in."""

    event: Event
    source: Source
    ended_at: float
    is_survived: bool

    @property
    def rank(self) -> int | None:
        return self.source.rank if self.event.line.rank is None else self.event.line.rank


@dataclass(slots=True)
class Logs:
    """What was read so far."""

    signs: list[Sign]
    files: int = 0
    bytes: int = 0


@contextmanager
def opened(source: Source) -> Generator[int | None]:
    """Its descriptor; None where it is gone by now: logs are moved and removed while they are read."""
    try:
        fd = source.open()
    except (OSError, JumarError):
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def read_log(source: Source, read: Logs) -> None:
    with opened(source) as fd:
        if fd is None:
            return
        status = os.fstat(fd)
        read.files += 1
        read.bytes += status.st_size
        if _is_binary(os.pread(fd, 4096, 0)):
            return
        year = year_of(status.st_mtime)
        found = [
            event
            for region in regions(fd, status.st_size)
            for event in events_of(lines_of(region.start, region.text, year))
        ]
    survived = _last_gap(found, status.st_size)
    read.signs.extend(
        Sign(event, source, status.st_mtime, event.is_outlived or index < survived)
        for index, event in enumerate(found)
    )


def year_of(at: float) -> int:
    """The year of a time; whoever owns a file gives it any."""
    try:
        return time.gmtime(at).tm_year
    except (OverflowError, OSError, ValueError):
        return time.gmtime().tm_year


def last_lines(source: Source) -> tuple[float, list[Line]]:
    """When a log was written last, and the lines at its end; none of what is no text."""
    with opened(source) as fd:
        if fd is None:
            return 0.0, []
        status = os.fstat(fd)
        start = max(status.st_size - _TAIL, 0)
        text = os.pread(fd, _TAIL, start)
    if b"\0" in text:
        return status.st_mtime, []
    cut = text.find(b"\n") + 1 if start else 0
    return status.st_mtime, lines_of(start + cut, text[cut:], year_of(status.st_mtime))


def _is_binary(head: bytes) -> bool:
    """Whether these are no words: torch itself writes a stray NUL when a data loader's worker crashes."""
    return b"\0" in head.partition(b"\n")[0] or head.count(b"\0") > _STRAY


def _last_gap(found: Sequence[Event], size: int) -> int:
    """How many of these events were survived: much that is no fault was written after them."""
    ends = [event.line.offset for event in found[1:]] + [size]
    for index in range(len(found) - 1, -1, -1):
        if ends[index] - found[index].end > _SURVIVED:
            return index + 1
    return 0


def below(sign: Sign) -> list[Line]:
    """A sign's own line and those below it."""
    return _read(sign, sign.event.line.offset, _AFTER)


def before(sign: Sign) -> list[Line]:
    """The lines above a sign."""
    start = max(sign.event.line.offset - _BEFORE, 0)
    return _read(sign, start, sign.event.line.offset - start)


def text_before(sign: Sign) -> tuple[str, bool]:
    """Much of what stands above a sign, as it is, and whether that is all."""
    start = max(sign.event.line.offset - _LONG_BEFORE, 0)
    with opened(sign.source) as fd:
        text = b"" if fd is None else os.pread(fd, sign.event.line.offset - start, start)
    return text.decode("utf-8", "replace"), start == 0


def _read(sign: Sign, start: int, length: int) -> list[Line]:
    with opened(sign.source) as fd:
        if fd is None:
            return []
        year = year_of(os.fstat(fd).st_mtime)
        text = os.pread(fd, length, start)
    return lines_of(start, text, year)


def around(sign: Sign) -> str:
    """The lines around a sign, without what stands before each."""
    start = max(sign.event.line.offset - _BEFORE, 0)
    length = sign.event.line.offset - start + _AFTER
    return "\n".join(line.text for line in _read(sign, start, length))


def far_around(sign: Sign) -> str:
    """More of them."""
    return "\n".join(line.text for line in far_lines(sign))


def far_lines(sign: Sign) -> list[Line]:
    """The same, each with what is known of it."""
    start = max(sign.event.line.offset - _FAR_BEFORE, 0)
    return _read(sign, start, sign.event.line.offset - start + _FAR_AFTER)
