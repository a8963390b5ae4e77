"""Find the places of a log that tell of errors, without looking at its other lines.

`bytes.find` of a few words reads 2 GB/s for each. An automaton for all signatures at once (Aho-Corasick,
in Rust) was measured at 340 MB/s: slower than the few words that mark an error, and one more package.
So a big log is searched for those few from end to end, and for all others where it ends."""

import os
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

# An error is marked by one of these, nearly always.
_STRONG = (b"Traceback (most recent", b"Error", b"ERR", b"error:")
_WEAK = (
    *(
        b"rror",
        b"ailed",
        b"ailure",
        b"imeout",
        b"imed out",
        b"imes out",
        b"illed",
        b"xception",
        b"emory",
    ),
    *(b"not found", b"o such", b"o space", b"nvalid", b"atal", b"NVRM", b"eartbea", b" lost"),
    *(b"EI0", b"EJ0", b"EL0", b"EZ9", b"ault", b"quota", b"dumped", b"oom", b"BUG", b"PANIC"),
    *(b"SIG", b"Interrupt", b"Exit", b"exit", b"stall", b"blocked for", b"Could not", b"Link is"),
    *(b"watchdog",),
    *(
        b"abnormal",
        b"annot",
        b"denied",
        b"refused",
        b"full",
        b"CAUTION",
        b"Warning",
        b"FAILED",
        b"OOM",
    ),
)
MARKS = (*_STRONG, *_WEAK)
_SEARCHED_WHOLE = 8 << 20
_BLOCK = 8 << 20
_MANY = 10_000
_DIGITS = b"0123456789"
_SHAPE_BYTES = 96
_LONGEST_LINE = 4096
_ALIKE = 10
"""Of lines that differ in digits only, the first ones and the last one are looked at."""
_MOST_SHAPES = 2000
_MOST_READ = 1 << 20
"""Of what is found, so much from the first on and so much up to the last."""
_BEFORE, _AFTER, _LONGEST_REGION = 1024, 6144, 256 * 1024
_TAIL = 64 * 1024
"""How much of the end is read in any case: not every fault has a mark."""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the log around lines that may tell of a fault; whole lines."""

    start: int
    text: bytes


def regions(fd: int, size: int) -> Iterator[Region]:
    """The parts of a log that are worth reading, in order."""
    hits = _Hits()
    for start, block in _blocks(fd, size):
        # Words that are common in healthy logs are looked for in small logs and near the end only.
        near_end = start + len(block) > size - _SEARCHED_WHOLE
        hits.look(start, block, MARKS if near_end else _STRONG)
    for first, last in _limited(_with_tail(list(_spans(hits.offsets(fd), size)), size)):
        text = os.pread(fd, last - first, first)
        # Whole lines: the first may have begun before.
        cut = text.find(b"\n") + 1 if first else 0
        yield Region(first + cut, text[cut:])


def line_number(fd: int, offset: int) -> int:
    """Which line of the file begins at or holds this byte, from 1 on."""
    number, at = 1, 0
    while at < offset:
        block = os.pread(fd, min(_BLOCK, offset - at), at)
        if not block:
            break
        number += block.count(b"\n")
        at += len(block)
    return number


def _blocks(fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """The file in blocks of whole lines, where lines are not longer than a block."""
    start = 0
    while start < size:
        block = os.pread(fd, min(_BLOCK, size - start), start)
        if not block:
            return
        end = block.rfind(b"\n") + 1
        if 0 < end < len(block) and start + len(block) < size:
            block = block[:end]
        yield start, block
        start += len(block)


class _Hits:
    """Where lines with a mark begin, without the many that are alike."""

    def __init__(self) -> None:
        self._kept: list[int] = []
        self._seen: dict[bytes, int] = {}
        self._last: dict[bytes, int] = {}
        self._blocks_of: dict[bytes, int] = {}
        """In how many noisy blocks a kind of line was noted."""
        self._settled: set[bytes] = set()
        self._last_in: dict[bytes, tuple[int, int]] = {}
        """Of kinds that were noted often enough: the last block that has them."""
        self._is_noisy = False
        """Nearly all lines of the last block had a mark."""
        self._usual = _STRONG
        """The same marks, the one that most lines had lately first."""

    def look(self, start: int, block: bytes, marks: tuple[bytes, ...]) -> None:
        """Note the lines of a block that have a mark."""
        if self._is_noisy:
            self._is_noisy = self._has_many(block)
            if self._is_noisy:
                self._look_at_kinds(start, block, marks)
                return
        found: set[int] = set()
        for mark in marks:
            at = block.find(mark)
            while at >= 0:
                found.add(max(block.rfind(b"\n", 0, at) + 1, at - _LONGEST_LINE))
                # One mark in a line is enough.
                end = block.find(b"\n", at)
                at = -1 if end < 0 else block.find(mark, end)
                if len(found) > _MANY:
                    self._is_noisy = True
                    self._look_at_kinds(start, block, marks)
                    return
        for line in sorted(found):
            self._note(start + line, block[line : line + _SHAPE_BYTES])

    def _has_many(self, block: bytes) -> bool:
        """Whether nearly all lines have a mark. Of what one mark tells, the others are not asked."""
        count = 0
        for mark in self._usual:
            here = block.count(mark)
            count += here
            if count > _MANY:
                if here > _MANY:
                    self._usual = (mark, *(other for other in _STRONG if other != mark))
                return True
        return False

    def _look_at_kinds(self, start: int, block: bytes, marks: tuple[bytes, ...]) -> None:
        """The same where nearly all lines have a mark: a first and a last one of each kind."""
        shapes = block.translate(None, _DIGITS).split(b"\n")
        settled = self._settled.intersection(shapes)
        self._last_in.update(dict.fromkeys(settled, (start, len(block))))
        if len(self._blocks_of) >= _MOST_SHAPES:
            # More kinds than are kept need not be told apart: what is left of them is the last line.
            if not all(map(self._blocks_of.__contains__, shapes)):
                self._last[b""] = start + self._last_marked(block, marks)
            marked = self._blocks_of.keys() - self._settled
            marked.intersection_update(shapes)
        else:
            ordered = [shape for shape in dict.fromkeys(shapes) if shape not in self._settled]
            marked = _marked(ordered, block, marks)
        if marked:
            self._note_kinds(start, block, shapes, marked)

    def _last_marked(self, block: bytes, marks: tuple[bytes, ...]) -> int:
        """Where the last line with a mark begins."""
        at = 0
        for mark in (*self._usual, *marks[len(_STRONG) :]):
            at = max(at, block.rfind(mark, at))
        return block.rfind(b"\n", 0, at) + 1

    def _note_kinds(self, start: int, block: bytes, shapes: list[bytes], kinds: set[bytes]) -> None:
        """Note the first and the last line of each of these kinds."""
        lines = block.split(b"\n")
        last = dict(zip(shapes, range(len(shapes)), strict=True))
        first = dict(zip(reversed(shapes), reversed(range(len(shapes))), strict=True))
        for shape in kinds:
            self._blocks_of[shape] = self._blocks_of.get(shape, 0) + 1
            if self._blocks_of[shape] >= _ALIKE // 2:
                self._settled.add(shape)
        line, before = start, 0
        for index in sorted({at for shape in kinds for at in (first[shape], last[shape])}):
            line += sum(map(len, lines[before:index])) + index - before
            before = index
            self._note(line, lines[index][:_SHAPE_BYTES])

    def _note(self, offset: int, line: bytes) -> None:
        shape = line.partition(b"\n")[0].translate(None, _DIGITS)
        count = self._seen.get(shape, 0)
        if count < _ALIKE and (count or len(self._seen) < _MOST_SHAPES):
            self._seen[shape] = count + 1
            self._kept.append(offset)
        elif shape in self._seen or len(self._last) < _MOST_SHAPES:
            self._last[shape] = offset
        else:
            # Too many kinds: what is left of them is the end of the log.
            self._last[b""] = offset

    def offsets(self, fd: int) -> list[int]:
        """Where to read: the lines that were noted, and the last one of each kind that was not looked at any more."""
        by_block: dict[tuple[int, int], set[bytes]] = {}
        for shape, block in self._last_in.items():
            by_block.setdefault(block, set()).add(shape)
        for (start, length), kinds in by_block.items():
            text = os.pread(fd, length, start)
            shapes = text.translate(None, _DIGITS).split(b"\n")
            # The log may have been cut since.
            self._note_kinds(start, text, shapes, kinds.intersection(shapes))
        return sorted({*self._kept, *self._last.values()})


def _marked(kinds: list[bytes], block: bytes, marks: tuple[bytes, ...]) -> set[bytes]:
    """The kinds that have a mark: those that come first, together, since what is around them is read."""
    text = b"\n".join(kinds)
    found: set[int] = set()
    numbered: set[bytes] = set()
    for mark in marks:
        if mark.translate(None, _DIGITS) == mark:
            found.update(islice(_lines_with(mark, text), _MOST_SHAPES))
        else:
            # Kinds have no digits.
            lines = islice(_lines_with(mark, block), _MOST_SHAPES)
            numbered.update(_line_at(block, at).translate(None, _DIGITS) for at in lines)
    first = (_line_at(text, at) for at in sorted(found)[:_MOST_SHAPES])
    return {*first, *numbered.intersection(kinds)}


def _lines_with(mark: bytes, text: bytes) -> Iterator[int]:
    """Where lines with this mark begin."""
    at = text.find(mark)
    while at >= 0:
        yield text.rfind(b"\n", 0, at) + 1
        # One mark in a line is enough.
        end = text.find(b"\n", at)
        at = -1 if end < 0 else text.find(mark, end)


def _line_at(text: bytes, start: int) -> bytes:
    end = text.find(b"\n", start)
    return text[start : None if end < 0 else end]


def _spans(offsets: list[int], size: int) -> Iterator[tuple[int, int]]:
    index = 0
    while index < len(offsets):
        start = max(offsets[index] - _BEFORE, 0)
        end = offsets[index] + _AFTER
        while index < len(offsets) and offsets[index] <= end and end - start < _LONGEST_REGION:
            end = offsets[index] + _AFTER
            index += 1
        # The next one begins where this one ends.
        if index < len(offsets) and offsets[index] < end:
            index = bisect_left(offsets, end)
        yield start, min(end, size)


def _with_tail(spans: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """The same, with the end of the log."""
    tail = max(size - _TAIL, 0)
    kept = [(start, min(end, tail)) for start, end in spans if start < tail]
    if kept and kept[-1][1] == tail and tail - kept[-1][0] < _LONGEST_REGION:
        tail = kept.pop()[0]
    return [*kept, (tail, size)]


def _limited(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    lengths = [end - start for start, end in spans]
    total = sum(lengths)
    before = 0
    for span, length in zip(spans, lengths, strict=True):
        if before < _MOST_READ or total - before - length < _MOST_READ:
            yield span
        before += length
