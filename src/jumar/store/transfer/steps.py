"""What is remembered of a big file that is downloaded in ranges, beside it."""

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from jumar.inject.moxing_path.jumar_s3.ranged import Steps
from jumar.store.folder import explained


@dataclass(slots=True)
class Journal(Steps):
    """The steps in the file aside: a line that identifies the object, then one line per step."""

    path: str
    what: str
    """The object, in words that no other one has."""
    _file: int = -1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, identity: str) -> dict[int, bytes]:
        """The recorded steps, if the file belongs to the same object."""
        try:
            lines = Path(self.path).read_text("utf-8").split("\n")
        except (OSError, UnicodeDecodeError):
            return {}
        if lines[0] != self._first_line(identity):
            return {}
        # The last line is empty, or was cut off while being written.
        rows = (line.split() for line in lines[1:-1])
        return {int(row[0]): bytes.fromhex(row[1]) for row in rows if len(row) == 2}

    def _first_line(self, identity: str) -> str:
        return repr(f"{self.what} {identity}")

    def begin(self, identity: str, digests: dict[int, bytes]) -> None:
        """Start a new journal with these steps."""
        rows = [f"{number} {digest.hex()}" for number, digest in digests.items()]
        text = "\n".join([self._first_line(identity), *rows, ""])
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self.path, flags, 0o666)
        os.write(self._file, text.encode("utf-8"))

    def add(self, number: int, digest: bytes) -> None:
        """Record one more step."""
        try:
            with self._lock:
                os.write(self._file, f"{number} {digest.hex()}\n".encode())
        except OSError as error:
            raise explained(error, self.path) from error

    def close(self) -> None:
        """Close it; the file stays for the next try."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def forget(self) -> None:
        """Remove it."""
        Path(self.path).unlink(missing_ok=True)
