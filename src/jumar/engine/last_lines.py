"""Where the last lines of a log begin: read backwards, so that the length of the log does not matter."""

from collections.abc import Callable

MOST_TAIL_BYTES = 16 << 20
_BLOCK = 64 * 1024
_LONGEST_CHARACTER = 4

Read = Callable[[int, int], bytes]
"""Of a log: at most so many bytes from an offset on."""


def tail_offset(
    read: Read, lines: int, end: int, *, most_bytes: int = MOST_TAIL_BYTES, block: int = _BLOCK
) -> int:
    """Where the last `lines` lines before `end` begin, at most `most_bytes` before it. `block`: how much
    is read at once."""
    if lines <= 0:
        return end
    first = max(0, end - most_bytes)
    position, missing = end, lines
    while position > first:
        count = min(block, position - first)
        data = read(position - count, count)
        # A newline at the very end closes the last line; it does not begin another.
        stop = len(data) - 1 if position == end and data.endswith(b"\n") else len(data)
        while (stop := data.rfind(b"\n", 0, stop)) >= 0:
            missing -= 1
            if missing == 0:
                return position - count + stop + 1
        position -= count
    return first if first == 0 else _character_start(read, first)


def _character_start(read: Read, offset: int) -> int:
    """The first place from `offset` on that is not inside a UTF-8 character."""
    block = read(offset, _LONGEST_CHARACTER)
    inside = next((i for i, byte in enumerate(block) if byte & 0xC0 != 0x80), 0)
    return offset + inside
