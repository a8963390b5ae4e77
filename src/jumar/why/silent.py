"""Logs in which nothing tells of a fault: with which line they end, and what ends a program without a word."""

import os
from collections.abc import Sequence

from jumar.why.details import REMEDY, WHAT, Detail
from jumar.why.reading import lines_of
from jumar.why.signs import Source, opened
from jumar.why.symbols import cut

_TAIL = 4096
_LONGEST = 160


def silent_end(sources: Sequence[Source]) -> list[Detail]:
    """The last line of the log that was written last, and how to see what ended it."""
    last = last_line(sources)
    if last is None:
        return []
    return [Detail(WHAT, "silent-end", {"last": last}), Detail(REMEDY, "silent-next", {})]


def last_line(sources: Sequence[Source]) -> str | None:
    """The last line of the log that was written last; None where no log has one."""
    ends = [end for source in sources if (end := end_of(source)) is not None]
    return max(ends, key=lambda end: end[0])[1] if ends else None


def end_of(source: Source) -> tuple[float, str] | None:
    """When a log was written last, and its last line; None where it has none."""
    with opened(source) as fd:
        if fd is None:
            return None
        status = os.fstat(fd)
        text = os.pread(fd, _TAIL, max(status.st_size - _TAIL, 0))
    if b"\0" in text:
        return None
    # Of a longer line this is its end.
    lines = lines_of(0, text, 0)
    return (status.st_mtime, cut(lines[-1].text.strip(), _LONGEST)) if lines else None
