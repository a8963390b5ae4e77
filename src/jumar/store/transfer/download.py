"""An object to a local file: in one request, or in ranges that can be resumed.

A big file is assembled aside (`.jumar-….part`) with a list of the steps it already has, one MiB
each; the next run fetches only the missing ones. Size and checksum are verified before the file gets
its name."""

import fcntl
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from jumar.errors import StorageFull
from jumar.inject.moxing_path.jumar_s3 import BIG_BYTES, PART_BYTES, S3, Reading
from jumar.inject.moxing_path.jumar_s3.checksum import (
    Crc32,
    Digest,
    is_damaged,
    is_md5,
    is_wrong,
    parts_in_tag,
)
from jumar.store.base import Entry
from jumar.store.errors import Damaged, StoreAway, patiently
from jumar.store.filecopy import reserve
from jumar.store.folder import ASIDE, FolderStore, explained, write_at_once, written_aside
from jumar.store.objects import ObjectStore
from jumar.store.transfer.records import SMALL_BYTES, Options, Progress
from jumar.store.transfer.steps import Arriving, Journal
from jumar.store.transfer.verify import check_answered

T = TypeVar("T")
# Whole parts, as we send them, so that servers that store parts read none of them twice.
RANGE_BYTES = 2 * PART_BYTES
STEP_BYTES = 1 << 20
# Small enough to still be in the CPU cache when it is written.
_BUFFER_BYTES = 1 << 18
# Larger writes request large pages, which are expensive when memory is full of cached files.
_WRITE_BYTES = 1 << 16


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
        elif self.entry.size <= BIG_BYTES or not self._ranges_work():
            self.patiently(lambda: self._fetch_stream(path))
        else:
            _RangedDownload(self, path).run()

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
                with self.open(0, None) as reading:
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
            check_answered(self.store, self.entry.key, etag)

    def _check(self, etag: str, md5: str) -> None:
        """The checksum must match the tag that came with the bytes, if that is a checksum."""
        if is_wrong(etag, md5, lambda: self.store.stat(self.entry.key).etag):
            raise self.damaged()

    def open(self, start: int, length: int | None) -> Reading:
        """The object's bytes, from the server."""
        return self.store.call(
            self.entry.key,
            lambda: self.store.s3.get(self.store.bucket, self.entry.key, start, length),
        )

    def _ranges_work(self) -> bool:
        def ask() -> bool:
            with self.open(1, 1) as reading:
                return not reading.whole

        return self.patiently(ask)

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
    """A big object in ranges, several at a time, with checksums computed on the way."""

    def __init__(self, download: Download, path: str) -> None:
        self._download = download
        self._path = path
        self._size = download.entry.size
        self._kept = self._ask(lambda s3, bucket, key: s3.kept(bucket, key))
        download.check_size(self._kept.size)
        # Only the tag of an object in parts needs MD5s of the ranges, of just those parts.
        self._by_parts = self._kept.crc32 is None and parts_in_tag(self._kept.etag) is not None
        self._step_bytes = self._choose_step_bytes()
        # Concurrent writers of one file wait in the kernel, and burn a core while they do.
        self._writing = threading.Lock()
        self._count = -(-self._size // self._step_bytes)
        name = hashlib.sha256(os.fsencode(path)).hexdigest()[:24]
        self._aside = f"{os.path.dirname(path)}/{ASIDE}{name}.part"
        self._journal = Journal(
            f"{os.path.dirname(path)}/{ASIDE}{name}.done",
            f"{download.what} {self._kept.etag} {self._size} {self._step_bytes} "
            + ("md5" if self._by_parts else "crc32"),
        )

    def _choose_step_bytes(self) -> int:
        """Small steps; or the object's own parts, if its tag is to be verified."""
        if not self._by_parts:
            return STEP_BYTES
        return self._ask(lambda s3, bucket, key: s3.part_bytes(bucket, key)) or PART_BYTES

    def _ask(self, question: Callable[[S3, str, str], T]) -> T:
        download = self._download
        store, key = download.store, download.entry.key
        return download.patiently(
            lambda: store.call(key, lambda: question(store.s3, store.bucket, key))
        )

    def run(self) -> None:
        """Fetch what is missing, verify the whole, rename."""
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._download.patiently(self._fetch_all)
        mtime = self._download.entry.mtime
        os.utime(self._aside, (mtime, mtime))
        os.replace(self._aside, self._path)
        self._journal.forget()

    def _fetch_all(self) -> None:
        progress = self._download.progress
        file = os.open(self._aside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _hold(file, self._path)
            # After a power failure the list may be on disk but not the bytes: check them.
            listed = self._journal.read().items()
            digests = {n: digest for n, digest in listed if self._digest_at(file, n) == digest}
            if not digests:
                self._download.check_space(self._path)
            progress.resume(sum(self._step(number)[1] for number in digests))
            reserve(file, self._size)
            os.ftruncate(file, self._size)
            self._journal.begin(digests)
            self._fetch_missing(file, digests)
            if self._is_damaged(file, digests):
                self._journal.forget()
                progress.add_bytes(-self._size)
                raise self._download.damaged()
        except OSError as error:
            raise explained(error, self._path) from error
        finally:
            os.close(file)
            self._journal.close()

    def _fetch_missing(self, file: int, digests: dict[int, bytes]) -> None:
        runs = self._runs(number for number in range(self._count) if number not in digests)
        progress = self._download.progress
        progress.crew.each(lambda run: self._fetch_run(file, run, digests), runs, progress.stop)

    def _runs(self, missing: Iterable[int]) -> list[range]:
        """Consecutive steps, as many as fit into one request."""
        most = max(1, RANGE_BYTES // self._step_bytes)
        runs: list[range] = []
        for number in missing:
            if runs and runs[-1].stop == number and len(runs[-1]) < most:
                runs[-1] = range(runs[-1].start, number + 1)
            else:
                runs.append(range(number, number + 1))
        return runs

    def _step(self, number: int) -> tuple[int, int]:
        """Where a step starts, and its length."""
        start = number * self._step_bytes
        return start, min(self._step_bytes, self._size - start)

    def _fetch_run(self, file: int, run: range, digests: dict[int, bytes]) -> None:
        def fetch() -> None:
            for left in self._runs(number for number in run if number not in digests):
                self._fetch_steps(file, left, digests)

        self._download.patiently(fetch)

    def _fetch_steps(self, file: int, run: range, digests: dict[int, bytes]) -> None:
        """One request; each step is recorded as soon as it is complete."""
        download, at = self._download, self._step(run.start)[0]
        end = sum(self._step(run[-1]))
        arriving = Arriving(run.start, self._step, self._new_digest)
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        try:
            with download.open(at, end - at) as reading:
                if reading.etag not in ("", self._kept.etag):
                    raise download.replaced()
                while at < end:
                    room = buffer[: end - at]
                    read = partial(reading.readinto, room)
                    got = download.store.call(download.entry.key, read)
                    with self._writing:
                        _write_at(file, room[:got], at, self._path)
                    at += got
                    download.progress.add_bytes(got)
                    for number, digest in arriving.take(room[:got]):
                        self._journal.add(number, digest)
                        digests[number] = digest
                        download.progress.crew.carried(self._step(number)[1])
        except BaseException:
            download.progress.add_bytes(-arriving.unfinished)
            raise

    def _is_damaged(self, file: int, digests: dict[int, bytes]) -> bool:
        def md5() -> str:
            digest = hashlib.md5()
            _feed(digest, file, 0, self._size)
            return digest.hexdigest()

        ranges = ((digests[n], self._step(n)[1]) for n in range(self._count))
        return is_damaged(self._kept, ranges, md5)

    def _new_digest(self) -> Digest:
        return hashlib.md5() if self._by_parts else Crc32()

    def _digest_at(self, file: int, number: int) -> bytes:
        digest = self._new_digest()
        _feed(digest, file, *self._step(number))
        return digest.digest()


def _feed(digest: Digest, file: int, start: int, length: int) -> None:
    """Add a range of an open file, or as much of it as exists."""
    end = start + length
    while data := os.pread(file, min(_BUFFER_BYTES, end - start), start):
        digest.update(data)
        start += len(data)


def _hold(file: int, path: str) -> None:
    """Only one process at a time writes the file aside."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreAway(f"{path}: another process is downloading it right now") from None


def _write_at(file: int, data: memoryview, start: int, path: str) -> None:
    try:
        while data:
            done = os.pwrite(file, data[:_WRITE_BYTES], start)
            data, start = data[done:], start + done
    except OSError as error:
        raise explained(error, path) from error
