"""What a store is: keys with bytes behind them. Folders, the built-in store and S3 all fit."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from jumar.store.url import Url


@dataclass(frozen=True, slots=True)
class Entry:
    """One object or file. `etag` is what the server calls its content; folders have none."""

    key: str
    size: int
    mtime: float
    etag: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """One level: what lies here and the folders below, whose names end in `/`."""

    entries: tuple[Entry, ...]
    folders: tuple[str, ...]


class Store(Protocol):
    """A bucket or a folder. Keys are relative to it, with `/` between their parts.

    NotFound where there is nothing, BadInput for keys it cannot hold, StoreAway when it may be
    worth asking again. A write is seen whole or not at all."""

    @property
    def name(self) -> str:
        """How messages call it."""
        ...

    def make_ready(self) -> None:
        """Called before the first write; makes the bucket where that is ours to do."""
        ...

    def walk(self, prefix: str = "") -> Iterator[Entry]:
        """All entries whose keys start with `prefix`, which is empty or ends in `/`."""
        ...

    def level(self, prefix: str = "") -> Listing:
        """What lies directly under `prefix`, which is empty or ends in `/`."""
        ...

    def stat(self, key: str) -> Entry:
        """One entry."""
        ...

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Bytes from `start`, as many as there are and at most `length`."""
        ...

    def write(self, key: str, data: bytes) -> Entry:
        """Make or replace an object."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete; keys that are not there are fine."""
        ...

    def delete_folders(self, prefix: str) -> int:
        """Remove the empty folders at and below `prefix`; gives how many."""
        ...

    def copy(self, key: str, to: str) -> Entry:
        """Copy inside the store."""
        ...

    def make_folder(self, prefix: str) -> None:
        """Make an empty folder that listings show; `prefix` ends in `/`."""
        ...

    def empty_folders(self) -> Iterator[str]:
        """The folders that were made so; each ends in `/`."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """A store and a key in it: what a URL stands for."""

    url: Url
    store: Store
    key: str

    @property
    def prefix(self) -> str:
        """The key as a folder: empty, or with a final slash."""
        return self.key if self.key == "" or self.key.endswith("/") else self.key + "/"
