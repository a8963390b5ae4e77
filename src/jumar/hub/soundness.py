"""Whether a stored file still is what its name says: hashed when it is read for the first time, and again
once it has changed on the disk. What is not is set aside, so that whoever has the bytes can send them again."""

import hashlib
import io
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

SET_ASIDE = ".damaged"
_MOST_KNOWN = 100_000
_BLOCK_BYTES = 4 << 20
# So many bytes are hashed in the time that anybody waits for a first answer.
_AT_ONCE_BYTES = 64 << 20
_Seen = tuple[int, int, int, int, int]


class Soundness:
    """Thread-safe; what was seen is forgotten with the process."""

    def __init__(self) -> None:
        self._seen: dict[_Seen, None] = {}
        self._lock = threading.Lock()

    def vouch(self, path: Path) -> None:
        """This file was hashed a moment ago."""
        self._remember(_of(path.stat()))

    def open(self, path: Path, oid: str, damaged: Exception) -> BinaryIO:
        """The file; `damaged` where it is not. A small one is hashed first, a large one while it is read from
        its beginning to its end, so that the error comes instead of the last block."""
        file = path.open("rb", buffering=0)
        try:
            status = os.fstat(file.fileno())
            if _of(status) in self._seen:
                return io.BufferedReader(file)

            def judge(found: str) -> None:
                if found != oid:
                    self._set_aside(path)
                    raise damaged
                self._remember(_of(status))

            checked = _Checked(file, status.st_size, judge)
            if status.st_size <= _AT_ONCE_BYTES:
                while checked.read(_BLOCK_BYTES):
                    continue
                checked.seek(0)
            return checked
        except BaseException:
            file.close()
            raise

    @staticmethod
    def _set_aside(path: Path) -> None:
        # Somebody else may have read it at the same time.
        with suppress(FileNotFoundError):
            path.rename(path.with_name(path.name + SET_ASIDE))

    def _remember(self, seen: _Seen) -> None:
        with self._lock:
            self._seen[seen] = None
            if len(self._seen) > _MOST_KNOWN:
                del self._seen[next(iter(self._seen))]


class _Checked(io.BufferedReader):
    """A file that is hashed as it is read, unless somebody reads only a part of it."""

    def __init__(self, file: io.FileIO, size: int, judge: Callable[[str], None]) -> None:
        super().__init__(file)
        self._size, self._judge = size, judge
        self._hashed = 0
        self._digest = hashlib.sha256()
        self._is_hashed = True

    def read(self, size: int | None = -1, /) -> bytes:
        # By its place, whoever moved it: a whole file must not be judged by a part, as libraries read.
        self._is_hashed = self._is_hashed and self.tell() == self._hashed
        block = super().read(size)
        if self._is_hashed:
            self._digest.update(block)
            self._hashed += len(block)
            if self._hashed >= self._size or (not block and size != 0):
                self._is_hashed = False
                self._judge(self._digest.hexdigest())
        return block


def _of(status: os.stat_result) -> _Seen:
    """What changes with the file; a rotten disk changes none of it, which the next start finds."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
