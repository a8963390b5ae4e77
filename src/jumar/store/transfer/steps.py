"""A big file downloaded in ranges, as steps: each has a checksum and is recorded once complete."""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jumar.inject.moxing_path.jumar_s3.checksum import Digest


class Arriving:
    """Consecutive bytes in pieces of any size; yields the checksum of each complete step."""

    def __init__(
        self,
        first: int,
        step: Callable[[int], tuple[int, int]],
        new_digest: Callable[[], Digest],
    ) -> None:
        self._number = first
        self._step = step
        self._new_digest = new_digest
        self._digest = new_digest()
        self.unfinished = 0
        """Bytes received of the incomplete step."""

    def take(self, data: memoryview) -> Iterator[tuple[int, bytes]]:
        """Add the next bytes; yields the steps that they complete."""
        while data:
            length = self._step(self._number)[1]
            piece = data[: length - self.unfinished]
            self._digest.update(piece)
            self.unfinished += len(piece)
            data = data[len(piece) :]
            if self.unfinished == length:
                yield self._number, self._digest.digest()
                self._number, self._digest, self.unfinished = (
                    self._number + 1,
                    self._new_digest(),
                    0,
                )


@dataclass(slots=True)
class Journal:
    """The steps in the file aside: a line that identifies the object, then one line per step."""

    path: str
    identity: str
    _file: int = -1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> dict[int, bytes]:
        """The recorded steps, if the file belongs to the same object."""
        try:
            lines = Path(self.path).read_text("utf-8").split("\n")
        except (OSError, UnicodeDecodeError):
            return {}
        if lines[0] != repr(self.identity):
            return {}
        # The last line is empty, or was cut off while being written.
        rows = (line.split() for line in lines[1:-1])
        return {int(row[0]): bytes.fromhex(row[1]) for row in rows if len(row) == 2}

    def begin(self, digests: dict[int, bytes]) -> None:
        """Start a new journal with these steps."""
        rows = [f"{number} {digest.hex()}" for number, digest in digests.items()]
        text = "\n".join([repr(self.identity), *rows, ""])
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self.path, flags, 0o666)
        os.write(self._file, text.encode("utf-8"))

    def add(self, number: int, digest: bytes) -> None:
        """Record one more step."""
        with self._lock:
            os.write(self._file, f"{number} {digest.hex()}\n".encode())

    def close(self) -> None:
        """Close it; the file stays for the next try."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def forget(self) -> None:
        """Remove it."""
        Path(self.path).unlink(missing_ok=True)
