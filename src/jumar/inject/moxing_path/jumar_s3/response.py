"""An answer of an HTTP server."""

from abc import ABC, abstractmethod
from typing import Dict, List, Optional

READ_BYTES = 64 * 1024


class Source(ABC):
    """Where the bytes of an answer come from."""

    @abstractmethod
    def receive_into(self, buffer: memoryview) -> int:
        """Fill the buffer as far as bytes arrive in time; 0 if the other side has closed."""

    @abstractmethod
    def line(self) -> bytes:
        """The next line, without its end."""

    @abstractmethod
    def free(self) -> None:
        """The answer has been read."""

    @abstractmethod
    def close(self) -> None:
        """Nothing more can be read."""


class Response:
    """An answer, whose body is read from its connection. Header names are lowercase."""

    def __init__(
        self,
        connection: Source,
        status: int,
        headers: Dict[str, str],
        *,
        kept: bool,
        empty: bool,
    ) -> None:
        self.status = status
        self.headers = headers
        self.done = False
        """Whether the body has been read to its end."""
        self._connection = connection
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        self._first_chunk = True
        self.left = 0 if self._chunked else _length(headers)
        """How many bytes are left, in the current chunk if chunked; None if unknown."""
        # A body of unknown length ends with the connection.
        self._kept = kept and (empty or self.left is not None)
        if empty or (self.left == 0 and not self._chunked):
            self._finish()

    def close(self) -> None:
        """Finish; if the body was not read completely, the connection is closed."""
        if not self.done:
            self._kept = False
            self._finish()

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer, or some of it; 0 at the end of the body."""
        if self._chunked and not self.left and not self.done:
            self._next_chunk()
        if self.done or not len(buffer):
            return 0
        got = self._connection.receive_into(buffer if self.left is None else buffer[: self.left])
        if not got and self.left is not None:
            raise ConnectionError("the answer was cut short")
        if not got:
            self._finish()
        elif self.left is not None:
            self.left -= got
            if not self.left and not self._chunked:
                self._finish()
        return got

    def read(self, most: int) -> bytes:
        """The rest of the body, at most `most` bytes."""
        pieces: List[bytes] = []
        while most > 0:
            known = self.left if self.left and not self._chunked else READ_BYTES
            buffer = bytearray(min(most, known))
            got = self.readinto(memoryview(buffer))
            if not got:
                break
            pieces.append(bytes(memoryview(buffer)[:got]))
            most -= got
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _next_chunk(self) -> None:
        if not self._first_chunk:
            self._connection.line()
        self._first_chunk = False
        size = self._connection.line().partition(b";")[0]
        try:
            self.left = int(size, 16)
        except ValueError:
            raise ConnectionError(f"the answer is not HTTP: {size[:80]!r}") from None
        if not self.left:
            while self._connection.line():
                pass
            self._finish()

    def _finish(self) -> None:
        self.done = True
        if self._kept:
            self._connection.free()
        else:
            self._connection.close()


def _length(headers: Dict[str, str]) -> Optional[int]:
    text = headers.get("content-length")
    if text is None:
        return None
    if not text.isdigit():
        raise ConnectionError(f"the answer is not HTTP: a length of {text[:80]!r}")
    return int(text)
