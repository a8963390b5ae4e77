"""What a store is: keys and their bytes. Folders, the built-in store and S3 buckets are stores."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Entry:
    """One object or file. `etag` is the server's tag for its content; files in folders have none."""

    key: str
    size: int
    mtime: float
    etag: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """One level: the entries here, and the folders below, whose names end in `/`."""

    entries: tuple[Entry, ...]
    folders: tuple[str, ...]


class Store(Protocol):
    """A bucket or a folder. Keys are relative to it, with `/` between their parts.

    Raises NotFound for what does not exist, BadInput for keys it cannot hold, and StoreAway when
    another try may help. A write is visible completely or not at all."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    def make_ready(self) -> None:
        """Called before the first write; creates the bucket where that is up to us."""
        ...

    def create(self) -> None:
        """Create the bucket or the folder unless it exists."""
        ...

    def has_folder(self, prefix: str = "") -> bool:
        """Whether this folder exists, even if it is empty; without a prefix, the store itself."""
        ...

    def walk(self, prefix: str = "") -> Iterator[Entry]:
        """All entries whose keys start with `prefix`, which is empty or ends in `/`."""
        ...

    def level(self, prefix: str = "") -> Listing:
        """What is directly under `prefix`, which is empty or ends in `/`."""
        ...

    def stat(self, key: str) -> Entry:
        """One entry."""
        ...

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Bytes from `start` on, at most `length`."""
        ...

    def write(self, key: str, data: bytes) -> Entry:
        """Create or replace an object."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete these keys; missing ones are fine."""
        ...

    def delete_folders(self, prefix: str) -> int:
        """Remove the empty folders at and below `prefix`; returns how many."""
        ...

    def copy(self, key: str, to: str) -> Entry:
        """Copy inside the store."""
        ...

    def make_folder(self, prefix: str) -> None:
        """Create an empty folder that listings show; `prefix` ends in `/`."""
        ...

    def empty_folders(self) -> Iterator[str]:
        """The folders created by `make_folder`; each ends in `/`."""
        ...
