"""A log that is read by place, forwards and backwards, and its bytes as text."""

import codecs
import os
from collections.abc import AsyncIterator
from io import FileIO

from starlette.concurrency import run_in_threadpool

from jumar.engine.last_lines import MOST_TAIL_BYTES, tail_offset
from jumar.server.edge.requests import Part

_BLOCK = 64 * 1024
_SEND_BLOCK = 256 * 1024


class OpenLog:
    """An open log, which may be huge and may still grow, read by place and backwards, in blocks.

    Reads do not move anything, so that threads may share it."""

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
        return tail_offset(self.read, lines, end, most_bytes=most_bytes)

    def line_end(self, offset: int, end: int) -> int:
        """The end of the last whole line before `offset`, if there is one near; else `offset`."""
        if offset >= end:
            return end
        block = self.read(max(0, offset - _BLOCK), min(_BLOCK, offset))
        cut = block.rfind(b"\n") + 1
        return offset - len(block) + cut if cut else offset


async def blocks(log: OpenLog, part: Part) -> AsyncIterator[bytes]:
    """The part, as it is taken; closes the file."""
    position = part.start
    try:
        while position < part.end:
            count = min(_SEND_BLOCK, part.end - position)
            block = await run_in_threadpool(log.read, position, count)
            if not block:
                return
            position += len(block)
            yield block
    finally:
        log.close()


class Decoder:
    """Bytes to text across the borders of pieces; what is not UTF-8 becomes U+FFFD."""

    def __init__(self, offset: int) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.offset = offset
        """The byte after the last character that was given out."""
        self.position = offset
        """The byte to read next."""

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text that is complete with `data`."""
        text = self._decoder.decode(data, final)
        self.position += len(data)
        pending, _ = self._decoder.getstate()
        self.offset = self.position - len(pending)
        return text
