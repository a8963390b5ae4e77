"""Code that clients upload: tar files named by their SHA-256, kept once however often they are used."""

import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from jumar.engine.archive_names import index_path, keep_names
from jumar.errors import BadInput, CodeNotFound, StorageFull, TooLarge

MOST_BYTES = 2 << 30
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Archive:
    """One that is kept."""

    digest: str
    size: int
    uploader: str
    """Who sent it first; empty where nobody noted that: it may be that of a job without a server."""
    used_at: float
    """When it was last asked for."""


class CodeArchives:
    """A folder of tar files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, digest: str) -> Path:
        """Where the archive is; CodeNotFound if it was never uploaded."""
        path = self.path(digest)
        if not path.is_file():
            raise CodeNotFound(
                f"no uploaded code {digest[:12]}…",
                hint=f"upload it first: PUT /api/v1/code/{digest}",
            )
        _note_use(path)
        return path

    def has(self, digest: str) -> bool:
        """Whether it was uploaded. Then it stays until a job that is to have it could have come."""
        path = self.path(digest)
        _note_use(path)
        return path.is_file()

    def all(self) -> list[Archive]:
        """Those that are whole."""
        found: list[Archive] = []
        with suppress(FileNotFoundError):
            for path in self._folder.iterdir():
                if path.suffix == ".tar" and _DIGEST.fullmatch(path.stem):
                    with suppress(FileNotFoundError):
                        size = path.stat().st_blocks * 512
                        uploader = _read(_uploader(path))
                        found.append(Archive(path.stem, size, uploader, _used_at(path)))
        return found

    def remove(self, digest: str, before: float) -> None:
        """Unless somebody has asked for it since."""
        path = self.path(digest)
        with suppress(FileNotFoundError):
            if _used_at(path) < before:
                path.unlink()
                for beside in (index_path(path), _uploader(path)):
                    beside.unlink(missing_ok=True)

    def begin(self, digest: str | None, user: str = "") -> "Incoming":
        """An upload that comes piece by piece; close it when done. Without a digest, whatever comes is
        taken."""
        if digest is not None:
            self.path(digest)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return Incoming(digest, self, user)
        except OSError as error:
            raise _no_room(error) from error

    def receive(self, digest: str, chunks: Iterable[bytes], user: str = "") -> None:
        """Keep an upload, if its content is what its name says."""
        with closing(self.begin(digest, user)) as incoming:
            for chunk in chunks:
                incoming.write(chunk)
            incoming.finish()

    def path(self, digest: str) -> Path:
        """Where the archive belongs, whether it is there or not."""
        if not _DIGEST.fullmatch(digest):
            raise BadInput(f"{digest[:80]!r} is not a SHA-256 in hexadecimal digits")
        return self._folder / f"{digest}.tar"

    def aside(self, name: str) -> Path:
        """Where an upload is until it is whole."""
        return self._folder / name


class Incoming:
    """One upload on its way: kept aside until it is known to be whole, and a tar file."""

    def __init__(self, digest: str | None, archives: CodeArchives, user: str) -> None:
        self._digest, self._user = digest, user
        self._archives = archives
        self._aside = archives.aside(f".{(digest or 'code')[:12]}-{secrets.token_hex(8)}")
        self._file = self._aside.open("xb")
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.size += len(chunk)
        if self.size > MOST_BYTES:
            raise TooLarge(
                f"the code is larger than {MOST_BYTES >> 30} GiB",
                hint="leave data out of it (.jumarignore) and give it as an input",
            )
        self._hash.update(chunk)
        try:
            self._file.write(chunk)
        except OSError as error:
            raise _no_room(error) from error

    @property
    def digest(self) -> str:
        """Of what came so far."""
        return self._hash.hexdigest()

    def finish(self) -> str:
        """Keep it, with the names that are in it; gives its digest."""
        actual = self.digest
        if self._digest not in (actual, None):
            raise BadInput(f"the upload's SHA-256 is {actual}, not {self._digest}")
        target = self._archives.path(actual)
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            index = index_path(target)
            if not index.exists():
                keep_names(self._aside, index)
            if self._user and not target.exists():
                _uploader(target).write_text(self._user, "utf-8")
            self._aside.rename(target)
        except OSError as error:
            raise _no_room(error) from error
        return actual

    def close(self) -> None:
        """Let go of it; what was not finished is gone."""
        # What is still to be written needs no room any more.
        with suppress(OSError):
            self._file.close()
        self._aside.unlink(missing_ok=True)


def _uploader(archive: Path) -> Path:
    """Where it is noted who sent it, and by its time when it was last asked for: that of the archive
    itself tells whether its names are still those in it."""
    return archive.with_suffix(".by")


def _note_use(archive: Path) -> None:
    # Where it cannot be noted, the time of the upload counts.
    with suppress(OSError):
        os.utime(_uploader(archive))


def _used_at(archive: Path) -> float:
    at = archive.stat().st_mtime
    with suppress(FileNotFoundError):
        at = max(at, _uploader(archive).stat().st_mtime)
    return at


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""


def _no_room(error: OSError) -> StorageFull:
    return StorageFull(f"cannot keep the uploaded code: {error.strerror}")
