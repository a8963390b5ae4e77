"""Reading a log that may be huge and may still grow: by place, backwards, in blocks."""

import os
from io import FileIO

BLOCK = 64 * 1024
MOST_TAIL_BYTES = 16 << 20
_LONGEST_CHARACTER = 4


class OpenLog:
    """An open log file; reads do not move anything, so that threads may share it."""

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
            count = min(BLOCK, position - first)
            block = self.read(position - count, count)
            # A newline at the very end closes the last line; it does not begin another.
            stop = len(block) - 1 if position == end and block.endswith(b"\n") else len(block)
            while (stop := block.rfind(b"\n", 0, stop)) >= 0:
                missing -= 1
                if missing == 0:
                    return position - count + stop + 1
            position -= count
        return first if first == 0 else self._character_start(first)

    def _character_start(self, offset: int) -> int:
        """The first place from `offset` on that is not inside a UTF-8 character."""
        block = self.read(offset, _LONGEST_CHARACTER)
        inside = next((i for i, byte in enumerate(block) if byte & 0xC0 != 0x80), 0)
        return offset + inside
