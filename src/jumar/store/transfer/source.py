"""A local file as it is read for an upload, and whether it changed meanwhile."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jumar.store.errors import Damaged
from jumar.store.folder import explained
from jumar.store.transfer.checksum import Digest

STEP_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells one state of a file from another."""

    size: int
    mtime_ns: int


class SourceFile:
    """An open file; many threads may read it."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise explained(error, path) from error
        self.identity = self._look()

    def __enter__(self) -> "SourceFile":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def _look(self) -> Identity:
        found = os.fstat(self._file)
        return Identity(found.st_size, found.st_mtime_ns)

    def changed(self) -> bool:
        """Whether it was written to since it was opened."""
        return self._look() != self.identity

    def all(self) -> bytes:
        """The bytes it had when it was opened."""
        return b"".join(self.pieces(0, self.identity.size, None, lambda _: None))

    def digested(self, start: int, length: int, digest: Digest) -> bytes:
        """The checksum of a range, by reading it: servers want it before the bytes."""
        for _ in self.pieces(start, length, digest, lambda _: None):
            pass
        return digest.digest()

    def pieces(
        self, start: int, length: int, digest: Digest | None, count: Callable[[int], None]
    ) -> Iterator[bytes]:
        """A range of it, piece by piece, hashed and counted on the way."""
        end = start + length
        while start < end:
            try:
                data = os.pread(self._file, min(STEP_BYTES, end - start), start)
            except OSError as error:
                raise explained(error, self.path) from error
            if not data:
                raise Damaged(f"{self.path} got shorter while it was copied")
            if digest is not None:
                digest.update(data)
            count(len(data))
            start += len(data)
            yield data
