"""Code that lies in the store, as one archive: what a job gets is what was there when it was made."""

import hashlib
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import RawIOBase
from tempfile import TemporaryFile
from typing import IO

from jumar.errors import BadInput, TooLarge
from jumar.modelarts.wanted import REQUIREMENTS
from jumar.server.edge.site import Site
from jumar.store.base import Entry, Store
from jumar.store.places import Place, open_place

MOST_BYTES = 512 << 20
MOST_FILES = 20_000
_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class StoredCode:
    """Code that was taken into the platform."""

    archive: str
    names: frozenset[str]

    @property
    def requirements(self) -> str | None:
        """The file that says what to install."""
        return REQUIREMENTS if REQUIREMENTS in self.names else None


def take_code(site: Site, user: str, url: str) -> StoredCode:
    """Read a folder of the store with the user's own rights and keep it as an archive."""
    place = open_place(url if url.endswith("/") else f"{url}/", site.stores.job_config(user))
    entries = _listed(place)
    with TemporaryFile() as file:
        _pack(place, entries, file)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if not site.service.archives.has(digest):
            file.seek(0)
            site.service.archives.receive(digest, iter(lambda: file.read(_BLOCK_BYTES), b""), user)
    return StoredCode(digest, frozenset(entries))


def _listed(place: Place) -> dict[str, Entry]:
    """The files of the folder by their paths in it."""
    found: dict[str, Entry] = {}
    size = 0
    for entry in place.store.walk(place.prefix):
        name = entry.key.removeprefix(place.prefix)
        if not name or name.endswith("/"):
            continue
        if any(part in ("", ".", "..") for part in name.split("/")):
            raise BadInput(f"code_dir: {entry.key[:200]!r} cannot be a file of a job")
        found[name] = entry
        size += entry.size
        if len(found) > MOST_FILES or size > MOST_BYTES:
            raise TooLarge(
                f"code_dir: {place.url} has more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB",
                hint="keep data in a folder of its own and give it as an input",
            )
    if not found:
        raise BadInput(
            f"code_dir: {place.url} has no files", hint=f"list it with: jumar data ls {place.url}"
        )
    return found


def _pack(place: Place, entries: dict[str, Entry], file: IO[bytes]) -> None:
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, entry in sorted(entries.items()):
            header = tarfile.TarInfo(name)
            header.size = entry.size
            # Scripts that are started by their name have no mode in a store.
            header.mode = 0o755 if name.endswith(".sh") else 0o644
            with _Reading(place.store, entry) as source:
                tar.addfile(header, source)


class _Reading(RawIOBase):
    """An object as a file, block by block; BadInput when it is cut short meanwhile."""

    def __init__(self, store: Store, entry: Entry) -> None:
        self._entry = entry
        self._blocks = _blocks(store, entry)
        self._left = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while len(self._left) < size:
            block = next(self._blocks, b"")
            if not block:
                raise BadInput(f"code_dir: {self._entry.key[:200]!r} changed while it was read")
            self._left += block
        given, self._left = self._left[:size], self._left[size:]
        return given


def _blocks(store: Store, entry: Entry) -> Iterator[bytes]:
    for start in range(0, entry.size, _BLOCK_BYTES):
        yield store.read(entry.key, start, min(_BLOCK_BYTES, entry.size - start))
