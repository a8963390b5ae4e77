"""Objects cached on a node between jobs, by content: bounded in size, least recently used go first.

A cached file is handed out as a hard link where the file system allows it, else as a copy. It is
read-only; if its size or time has changed, it is discarded and fetched again."""

import fcntl
import hashlib
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from jumar.inject.moxing_path.jumar_s3.checksum import names_content
from jumar.store.base import Entry
from jumar.store.filecopy import copy_file
from jumar.store.folder import FolderStore, explained
from jumar.store.objects import ObjectStore
from jumar.store.transfer.download import Download
from jumar.store.transfer.records import Options, Progress


@dataclass(frozen=True, slots=True)
class ContentCache:
    """A folder of objects, at most `most_bytes` large while nothing is being fetched."""

    folder: Path
    most_bytes: int

    def bring(
        self, store: ObjectStore, entry: Entry, target: str, options: Options, progress: Progress
    ) -> bool:
        """Put the object at `target`; returns whether it was in the cache."""
        name = self._name(store, entry)
        cached = self.folder / name
        hit = _is_sound(cached, entry.size)
        if hit:
            progress.resume(entry.size)
        while True:
            if not _is_sound(cached, entry.size):
                folder = FolderStore(str(self.folder), "the cache")
                Download(store, entry, folder, name, options, progress).run()
            # Another process may be trimming right now: then fetch it again.
            with suppress(FileNotFoundError):
                cached.chmod(0o444)
                os.utime(cached, ns=(time.time_ns(), _sealed(cached, cached.stat())))
                _hand_out(str(cached), target)
                break
        progress.add_file()
        return hit

    def _name(self, store: ObjectStore, entry: Entry) -> str:
        # By content within a bucket: another server may give the same tag to other bytes.
        what = f"{store.endpoint.url}\0{store.bucket}\0{entry.etag}\0{entry.size}"
        if not names_content(entry.etag):
            what += f"\0{entry.key}\0{entry.mtime}"
        digest = hashlib.sha256(what.encode("utf-8", "surrogateescape")).hexdigest()
        return f"{digest[:2]}/{digest}"

    @contextmanager
    def held(self, what: str) -> Generator[None]:
        """One process at a time fetches the same thing; the next finds it here."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = hashlib.sha256(what.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        with (self.folder / f"lock-{name}").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def trim(self) -> int:
        """Remove the least recently used files until the rest fits; returns the bytes removed."""
        with self.held("trim"):
            files = [
                (found.st_atime_ns, found.st_size, found.st_nlink, path)
                for path in self.folder.glob("??/*")
                if not path.name.startswith(".")
                for found in [path.stat()]
            ]
            total = sum(size for _, size, _, _ in files)
            removed = 0
            for _, size, links, path in sorted(files):
                if total - removed <= self.most_bytes:
                    break
                # Removing one that a job still links to frees nothing.
                if links == 1:
                    path.unlink(missing_ok=True)
                    removed += size
            return removed


def _is_sound(cached: Path, size: int) -> bool:
    try:
        found = cached.stat()
    except FileNotFoundError:
        return False
    is_read_only = not found.st_mode & 0o222
    return found.st_size == size and is_read_only and found.st_mtime_ns == _sealed(cached, found)


def _sealed(cached: Path, found: os.stat_result) -> int:
    """The modification time of an untouched file: its nanoseconds are derived from its name. A job
    that runs as root can write to a read-only file; the next job must not get that."""
    second_ns = 10**9
    return found.st_mtime_ns // second_ns * second_ns + int(cached.name[:8], 16) % second_ns


def _hand_out(cached: str, target: str) -> None:
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(target)
        try:
            os.link(cached, target)
        except FileNotFoundError:
            raise
        except OSError:
            copy_file(cached, target)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise explained(error, target) from error
