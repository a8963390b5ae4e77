"""Search over the whole of a log: lines that hold a text, with the lines around them.

A question reads some of the log and says where to go on, so that a log of many gigabytes holds no thread
for long. Case counts for letters outside of ASCII only. Colours between the letters do not matter."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jumar.server.api.open_log import OpenLog
from jumar.server.api.plain import plain

MOST_HITS = 500
CONTEXT_LINES = 2
_BLOCK = 1 << 20
SEARCH_S = 0.5
"""So long is one question answered."""
_LONGEST_SHOWN = 400
_AROUND_BYTES = 4096
_COLOUR = rb"(?:\x1b\[[0-?]*[ -/]*[@-~])*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A line that holds the text."""

    offset: int
    """The byte of the log where the text begins."""
    line: int
    """Counted from 1."""
    text: str
    """The line, or the part of it around the text."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """What was found from one place of a log on."""

    hits: tuple[Hit, ...]
    next_offset: int
    """Where to go on; the end of the log if that was reached."""
    next_line: int
    """The number of the line there."""
    size: int
    """How long the log is."""


@dataclass(frozen=True, slots=True)
class _Block:
    start: int
    line: int
    data: bytes


def search(log: OpenLog, text: str, *, start: int = 0, line: int = 1, limit: int = 100) -> Hits:
    """The first `limit` lines from `start` on, which is in line number `line`."""
    size, until = log.size(), time.monotonic() + SEARCH_S
    places_in = _finder(text)
    found: list[Hit] = []
    end, end_line = min(start, size), line
    for block in _blocks(log, end, line, size, len(text.encode()) - 1):
        for place in places_in(block.data):
            offset, number = block.start + place, block.line + block.data.count(b"\n", 0, place)
            if len(found) == limit:
                return Hits(hits=tuple(found), next_offset=offset, next_line=number, size=size)
            found.append(_hit(log, offset, number, size))
        end = block.start + len(block.data)
        end_line = block.line + block.data.count(b"\n")
        if time.monotonic() > until:
            break
    return Hits(hits=tuple(found), next_offset=end, next_line=end_line, size=size)


def offset_of_line(log: OpenLog, line: int) -> int:
    """Where a line begins, counted from 1; the end of the log if it has fewer."""
    for block in _blocks(log, 0, 1, log.size()):
        missing = line - block.line
        if missing <= block.data.count(b"\n"):
            place = 0
            for _ in range(missing):
                place = block.data.index(b"\n", place) + 1
            return block.start + place
    return log.size()


def _blocks(log: OpenLog, start: int, line: int, end: int, overlap: int = 0) -> Iterator[_Block]:
    """The log in blocks of whole lines. Of a line that is longer than a block, the pieces overlap."""
    while start < end:
        data = log.read(start, min(_BLOCK, end - start))
        if not data:
            return
        is_last = start + len(data) >= end
        cut = 0 if is_last else max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        yield _Block(start, line, data[:cut] if cut else data)
        line += data.count(b"\n", 0, cut or len(data))
        start += cut or len(data) - (0 if is_last else overlap)


def _finder(text: str) -> Callable[[bytes], Iterator[int]]:
    """The places of the text in a block, one per line; a progress bar that rewrites its line writes
    many."""
    wanted = text.encode().lower()
    letters = (re.escape(wanted[i : i + 1]) for i in range(len(wanted)))
    coloured = re.compile(_COLOUR.join(letters))

    def places(data: bytes) -> Iterator[int]:
        small = data.lower()
        is_coloured = b"\x1b" in small
        place = -1
        while True:
            if is_coloured:
                match = coloured.search(small, max(place, 0))
                place = -1 if match is None else match.start()
            else:
                place = small.find(wanted, max(place, 0))
            if place < 0:
                return
            yield place
            place = _line_end(small, place)

    return places


def _line_end(data: bytes, place: int) -> int:
    """Where the line ends that holds this place, also one that is rewritten."""
    ends = (data.find(b"\n", place), data.find(b"\r", place))
    return min((end for end in ends if end >= 0), default=len(data))


def _hit(log: OpenLog, offset: int, line: int, size: int) -> Hit:
    first = max(0, offset - _AROUND_BYTES)
    around = log.read(first, min(2 * _AROUND_BYTES, size - first))
    place = offset - first
    start = max(around.rfind(b"\n", 0, place), around.rfind(b"\r", 0, place)) + 1
    end = _line_end(around, place)
    # Of a very long line, the part that the text is in.
    shown = around[max(start, place - _LONGEST_SHOWN // 2) : min(end, place + _LONGEST_SHOWN)]
    before = _lines(around[:start].rstrip(b"\r\n"), first > 0)[-CONTEXT_LINES:]
    after = _lines(around[end:].lstrip(b"\r\n"), cut=False)[:CONTEXT_LINES]
    return Hit(offset=offset, line=line, text=_text(shown), before=before, after=after)


def _lines(data: bytes, cut: bool) -> tuple[str, ...]:
    """Whole lines; the first is left out where it may have begun earlier."""
    lines = data.split(b"\n")[1 if cut else 0 :]
    return tuple(_text(line)[:_LONGEST_SHOWN] for line in lines if line)


def _text(line: bytes) -> str:
    return plain(line.decode("utf-8", "replace"))
