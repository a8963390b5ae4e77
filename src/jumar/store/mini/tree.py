"""The files of a data set, and what is kept of them."""

import gzip
import io
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, cast

from jumar.errors import BadInput
from jumar.store.base import Entry, Store
from jumar.store.folder import FolderStore
from jumar.store.parallel import in_threads
from jumar.store.transfer.run import copy_entry

MOST_BYTES_IN_MEMORY = 512_000_000
_READERS = 16
_WINDOW_BYTES = 8 << 20
_GZIP = b"\x1f\x8b"
BAD_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
"""What reading a damaged file raises."""


class Uncuttable(Exception):
    """Why a file cannot be reduced; it is kept whole, and that is reported."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a data set, by their relative names."""

    store: Store
    entries: dict[str, Entry]

    def without(self, names: set[str]) -> "Tree":
        """The other files."""
        return Tree(self.store, {n: e for n, e in self.entries.items() if n not in names})

    def size(self, name: str) -> int:
        """The bytes of a file."""
        return self.entries[name].size

    def read(self, name: str) -> bytes:
        """A whole file."""
        if self.size(name) > MOST_BYTES_IN_MEMORY:
            raise BadInput(f"{name} is too large to be reduced in memory")
        return self.store.read(self.entries[name].key)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """A part of a file."""
        return self.store.read(self.entries[name].key, start, length) if length else b""

    def open(self, name: str) -> BinaryIO:
        """A file to be read, however large."""
        entry = self.entries[name]
        if isinstance(self.store, FolderStore):
            return open(self.store.path(entry.key), "rb")
        return io.BufferedReader(_Window(self.store, entry), _WINDOW_BYTES)

    def head(self, name: str, count: int) -> bytes:
        """The first bytes of a file."""
        return self.store.read(self.entries[name].key, 0, count) if self.size(name) else b""

    def is_gzip(self, name: str) -> bool:
        """Whether the file is compressed, whatever its name."""
        return self.head(name, 2) == _GZIP

    @contextmanager
    def open_unpacked(self, name: str) -> Generator[BinaryIO]:
        """A file that may be gzip, to be read sequentially."""
        with self.open(name) as file:
            is_gzip = self.is_gzip(name)
            yield cast("BinaryIO", gzip.GzipFile(fileobj=file)) if is_gzip else file

    def packed_like(self, name: str, data: bytes) -> bytes:
        """`data` in the form of the file: compressed, without a time, if that is gzip."""
        return gzip.compress(data, mtime=0) if self.is_gzip(name) else data

    def read_many(self, names: list[str]) -> list[bytes]:
        """Several small files, a few at a time."""
        return in_threads(self.read, names, _READERS)

    def local(self, name: str, scratch: Path) -> Path:
        """A path for libraries that need one: the file itself, or a copy in `scratch`."""
        entry = self.entries[name]
        if isinstance(self.store, FolderStore):
            return Path(self.store.path(entry.key))
        copy_entry(self.store, entry, FolderStore(str(scratch), "scratch"), name)
        return scratch / name


class _Window(io.RawIOBase):
    """An object as a file, one range request per read."""

    def __init__(self, store: Store, entry: Entry) -> None:
        self._store, self._entry, self._at = store, entry, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._entry.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self._at >= self._entry.size:
            return 0
        data = self._store.read(self._entry.key, self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


@dataclass
class Chosen:
    """What is kept: unchanged files by name, and rewritten files."""

    kept: set[str] = field(default_factory=set[str])
    made: dict[str, bytes] = field(default_factory=dict[str, bytes])
    whole: dict[str, str] = field(default_factory=dict[str, str])
    """Those of the kept files that are data and were not reduced, with the reason."""
    layouts: set[str] = field(default_factory=set[str])
    classes: int = 0

    def make(self, layout: str, files: dict[str, bytes], classes: int) -> set[str]:
        """Record rewritten files of one layout; returns their names."""
        self.layouts.add(layout)
        self.made.update(files)
        self.classes = max(self.classes, classes)
        return set(files)

    def keep_whole(self, name: str, why: str) -> None:
        """Keep a file as it is, and report it."""
        self.kept.add(name)
        self.whole[name] = why


def library(module: str, name: str) -> Any:
    """An optional library that reads `name`."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise BadInput(
            f"{name} can only be reduced with {package}, which is not installed",
            hint=f"install it next to jumar: pip install {package}; "
            f"or keep such files whole: --static '*{Path(name).suffix}'",
        ) from error
