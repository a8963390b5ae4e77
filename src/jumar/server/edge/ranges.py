"""Numbers in headers: which part of a file `Range: bytes=…` asks for, and single offsets."""

import re
from dataclasses import dataclass

from jumar.errors import RangeUnsatisfiable

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


def whole_number(text: str, *, most: int) -> int | None:
    """The number that `text` is, if it is one from 0 to `most`."""
    # Python refuses to read thousands of digits, so they are counted first.
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(most)):
        return None
    number = int(text)
    return number if number <= most else None


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes from `start` up to, not including, `end`."""

    start: int
    end: int


def parse_range(header: str | None, size: int) -> Part | None:
    """The part asked for; None when the whole is to be sent.

    Several ranges at once, other units and nonsense are answered with the whole, as HTTP allows."""
    match = _RANGE.fullmatch((header or "").strip().replace(" ", ""))
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match[1], match[2]
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1 if last else size)
        if last and int(last) < start:
            return None
    if start >= end:
        raise RangeUnsatisfiable(
            f"the range begins after the end: the log has {size} bytes", size=size
        )
    return Part(start, end)
