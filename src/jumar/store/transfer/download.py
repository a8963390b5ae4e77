"""An object to a local file: in one request, or in ranges that can be resumed.

A big file is assembled aside (`.jumar-….part`) with a list of the steps it already has, one MiB
each; the next run fetches only the missing ones. Size and checksum are verified before the file gets
its name."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from jumar.errors import StorageFull
from jumar.inject.moxing_path.jumar_s3 import BIG_BYTES, Reading
from jumar.inject.moxing_path.jumar_s3.checksum import is_md5, is_wrong
from jumar.inject.moxing_path.jumar_s3.ranged import Manner, NoRanges, Ranged, write_at
from jumar.store.base import Entry
from jumar.store.errors import Damaged, StoreAway, patiently
from jumar.store.filecopy import reserve
from jumar.store.folder import ASIDE, FolderStore, explained, write_at_once, written_aside
from jumar.store.objects import ObjectStore
from jumar.store.transfer.records import SMALL_BYTES, Options, Progress
from jumar.store.transfer.steps import Journal

T = TypeVar("T")
_BUFFER_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Download:
    """One download and what it needs."""

    store: ObjectStore
    entry: Entry
    folder: FolderStore
    target: str
    options: Options
    progress: Progress

    def run(self) -> None:
        """Fetch the object, verify it and rename it."""
        path = self.path
        if self.entry.size <= SMALL_BYTES:
            self.patiently(lambda: self.keep(*self.store.get_small(self.entry.key)))
            return
        if self.entry.size > BIG_BYTES:
            # The server may not be able to.
            with suppress(NoRanges):
                _RangedDownload(self, path).run()
                return
        self.patiently(lambda: self._fetch_stream(path))

    @property
    def path(self) -> str:
        """Where the file will be."""
        return self.folder.path(self.target)

    @property
    def what(self) -> str:
        """Its name in messages."""
        return f"{self.store.name}{self.entry.key}"

    def patiently(self, action: Callable[[], T]) -> T:
        """Do it, again while the store is away or the bytes are damaged."""
        return patiently(action, self.options.patience, self.progress.stop)

    def keep(self, data: bytes, etag: str) -> None:
        """Verify data that came in one piece, and write the file."""
        self._check_answered(etag)
        self.check_size(len(data))
        if is_md5(etag):
            self._check(etag, hashlib.md5(data).hexdigest())
        write_at_once(self.path, data, self.entry.mtime)
        self.progress.add_bytes(len(data))

    def _fetch_stream(self, path: str) -> None:
        self.check_space(path)
        digest, done = hashlib.md5(), 0
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        try:
            with written_aside(path, mtime=self.entry.mtime) as file:
                with self._open() as reading:
                    etag = reading.etag
                    self._check_answered(etag)
                    while got := self.store.call(self.entry.key, lambda: reading.readinto(buffer)):
                        file.write(buffer[:got])
                        digest.update(buffer[:got])
                        done += got
                        self.progress.add_bytes(got)
                self.check_size(done)
                self._check(etag, digest.hexdigest())
        except BaseException:
            self.progress.add_bytes(-done)
            raise

    def _check_answered(self, etag: str) -> None:
        # A server whose listing has no tags may send none with the bytes either.
        if self.entry.etag:
            self.store.check_answered(self.entry.key, etag)

    def _check(self, etag: str, md5: str) -> None:
        """The checksum must match the tag that came with the bytes, if that is a checksum."""
        if is_wrong(etag, md5, lambda: self.store.stat(self.entry.key).etag):
            raise self.damaged()

    def _open(self) -> Reading:
        key = self.entry.key
        return self.store.call(key, lambda: self.store.s3.get(self.store.bucket, key))

    def check_size(self, size: int) -> None:
        """The size must be the one that was listed."""
        if size != self.entry.size:
            raise Damaged(
                f"{self.what}: received {size} bytes instead of {self.entry.size}",
                hint="the object may have been replaced in the meantime; run it again",
            )

    def check_space(self, path: str) -> None:
        """Fail early if the file cannot fit."""
        folder = path
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        if shutil.disk_usage(folder).free < self.entry.size:
            raise StorageFull(
                f"{path}: not enough space for {self.entry.size} bytes",
                hint="free some space first",
            )

    def replaced(self) -> Damaged:
        """The error for an object that was replaced, maybe together with the server."""
        return Damaged(
            f"{self.what} was replaced during the download",
            hint="run it again to download the new version",
        )

    def damaged(self) -> Damaged:
        """The error for a wrong checksum."""
        return Damaged(
            f"{self.what}: the downloaded data has the wrong checksum",
            hint="the network or the server corrupts data; run it again",
        )


class _RangedDownload:
    """A big object in ranges, into a file aside."""

    def __init__(self, download: Download, path: str) -> None:
        self._download = download
        self._path = path
        name = hashlib.sha256(os.fsencode(path)).hexdigest()[:24]
        self._aside = f"{os.path.dirname(path)}/{ASIDE}{name}.part"
        self._journal = Journal(f"{os.path.dirname(path)}/{ASIDE}{name}.done", download.what)
        store, key, progress = download.store, download.entry.key, download.progress

        def ask(action: Callable[[], T]) -> T:
            return download.patiently(lambda: store.call(key, action))

        manner = Manner(
            ask,
            self._write,
            download.damaged,
            download.replaced,
            progress.crew,
            progress.stop,
            progress.add_bytes,
            progress.resume,
        )
        self._ranged = Ranged(store.s3, (store.bucket, key), manner, self._journal)
        download.check_size(self._ranged.kept.size)

    def run(self) -> None:
        """Fetch what is missing, verify the whole, rename; raises NoRanges, and leaves nothing, if the
        server cannot send it in ranges."""
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        try:
            self._download.patiently(self._fetch)
        except NoRanges:
            self._journal.forget()
            os.unlink(self._aside)
            raise
        mtime = self._download.entry.mtime
        os.utime(self._aside, (mtime, mtime))
        os.replace(self._aside, self._path)
        self._journal.forget()

    def _fetch(self) -> None:
        file = os.open(self._aside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _hold(file, self._path)
            digests = self._ranged.earlier(file)
            if not digests:
                self._check_space()
            reserve(file, self._ranged.kept.size)
            os.ftruncate(file, self._ranged.kept.size)
            self._ranged.carry(file, digests)
        except OSError as error:
            raise explained(error, self._path) from error
        finally:
            os.close(file)
            self._journal.close()

    def _check_space(self) -> None:
        try:
            self._download.check_space(self._path)
        except StorageFull:
            # There is nothing in it to go on with.
            os.unlink(self._aside)
            raise

    def _write(self, file: int, data: memoryview, start: int) -> None:
        try:
            write_at(file, data, start)
        except OSError as error:
            raise explained(error, self._path) from error


def _hold(file: int, path: str) -> None:
    """Only one process at a time writes the file aside."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreAway(f"{path}: another process is downloading it right now") from None
