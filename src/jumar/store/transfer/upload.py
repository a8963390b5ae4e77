"""A local file to an object: in one request, or in parts that can be resumed.

An interrupted upload in parts continues where it stopped (`unfinished`). The server verifies the
checksum of everything it receives: for parts the CRC-32 if it supports that, else the MD5. Its tag
is checked here too, if it is a checksum."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jumar.inject.moxing_path.jumar_s3 import BIG_BYTES, Begun
from jumar.inject.moxing_path.jumar_s3.checksum import (
    Crc32,
    Digest,
    is_md5,
    is_wrong,
    joined_crc32,
)
from jumar.store.errors import Damaged, patiently
from jumar.store.filecopy import check_place
from jumar.store.folder import explained
from jumar.store.objects import ObjectStore
from jumar.store.transfer.records import SMALL_BYTES, Options, Progress
from jumar.store.transfer.unfinished import Unfinished, damaged

_TRIES_WHILE_CHANGING = 3
_STEP_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Identity:
    """Identifies the state of a file."""

    size: int
    mtime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> "Identity":
        """From what the system says."""
        return cls(found.st_size, found.st_mtime_ns)


class SourceFile:
    """An open file, which may change meanwhile; many threads may read it."""

    def __init__(self, path: str, within: Sequence[str] = ()) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise explained(error, path) from error
        try:
            if within:
                check_place(self._file, within)
        except OSError as error:
            os.close(self._file)
            raise explained(error, path) from error
        self.identity = self._look()

    def __enter__(self) -> "SourceFile":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def _look(self) -> Identity:
        return Identity.of(os.fstat(self._file))

    def changed(self) -> bool:
        """Whether it was modified since it was opened."""
        return self._look() != self.identity

    def all(self) -> bytes:
        """The bytes it had when it was opened."""
        return b"".join(self.pieces(0, self.identity.size, None, lambda _: None))

    def digested(self, start: int, length: int, digest: Digest) -> bytes:
        """The checksum of a range; servers want it before the bytes."""
        for _ in self.pieces(start, length, digest, lambda _: None):
            pass
        return digest.digest()

    def pieces(
        self, start: int, length: int, digest: Digest | None, count: Callable[[int], None]
    ) -> Iterator[bytes]:
        """A range, piece by piece, hashed and counted on the way."""
        end = start + length
        while start < end:
            try:
                data = os.pread(self._file, min(_STEP_BYTES, end - start), start)
            except OSError as error:
                raise explained(error, self.path) from error
            if not data:
                raise Damaged(f"{self.path} became shorter during the copy")
            if digest is not None:
                digest.update(data)
            count(len(data))
            start += len(data)
            yield data


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload and what it needs."""

    store: ObjectStore
    key: str
    path: str
    options: Options
    progress: Progress
    state: Path | None

    def run(self) -> str | None:
        """Send the file; returns a note if it was still changing at the last try."""
        for attempt in range(1, _TRIES_WHILE_CHANGING + 1):
            is_last = attempt == _TRIES_WHILE_CHANGING or self.progress.stop.is_set()
            with SourceFile(self.path, self.options.within) as source:
                try:
                    self._send(source)
                except Damaged:
                    # The server refuses a file that changed after its checksum was computed.
                    if is_last or source.identity.size > BIG_BYTES or not source.changed():
                        raise
                    continue
                if not source.changed():
                    return None
            if is_last:
                break
            self.progress.add_bytes(-source.identity.size)
        return f"{self.path} changed during the copy; run it again once it stops changing"

    def _send(self, source: SourceFile) -> None:
        size = source.identity.size
        if size <= SMALL_BYTES:
            self.patiently(lambda: self._send_small(source))
            self.progress.add_bytes(size)
        elif size <= BIG_BYTES:
            self.patiently(lambda: self._send_stream(source))
        else:
            _PartedUpload(self, source).run()

    def patiently(self, action: Callable[[], None]) -> None:
        """Do it, retrying while the store is away."""
        patiently(action, self.options.patience, self.progress.stop)

    def _send_small(self, source: SourceFile) -> None:
        data = source.all()
        md5 = hashlib.md5(data).digest()
        check_arrived(self.store, self.key, self.store.put_small(self.key, data, md5), md5)

    def _send_stream(self, source: SourceFile) -> None:
        store, size = self.store, source.identity.size
        md5 = source.digested(0, size, hashlib.md5())
        with _Counted(self.progress) as counted:
            body = source.pieces(0, size, None, counted.add)
            put = partial(store.s3.put, store.bucket, self.key, body, size, md5)
            check_arrived(store, self.key, store.call(self.key, put), md5)


class _Counted:
    """Counts bytes on the way, and takes them back if the request fails."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._count = 0

    def add(self, count: int) -> None:
        self._count += count
        self._progress.add_bytes(count)

    def __enter__(self) -> "_Counted":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._progress.add_bytes(-self._count)


class _PartedUpload:
    """A big file in parts."""

    def __init__(self, upload: Upload, source: SourceFile) -> None:
        self._upload = upload
        self._source = source
        self._parted = Unfinished(
            *(upload.store, upload.key, source.identity.size, upload.path),
            {"mtime_ns": source.identity.mtime_ns},
            *(upload.options, upload.progress, upload.state),
        ).parted()
        self._crcs: dict[int, bytes] = {}

    def run(self) -> None:
        """Send the missing parts, then complete the object; start over if the server has lost it."""
        self._parted.carry(self._send_part, self._crc32)

    def _crc(self, number: int) -> bytes:
        """The checksum of a part."""
        return self._source.digested(*self._parted.range(number), Crc32())

    def _crc32(self) -> bytes:
        """The checksum of the whole file; parts sent by an earlier try are read again for it."""
        numbers = range(1, self._parted.count + 1)
        return joined_crc32(
            (self._crcs.get(n) or self._crc(n), self._parted.range(n)[1]) for n in numbers
        )

    def _send_part(self, begun: Begun, number: int, start: int, length: int) -> str:
        store, key = self._upload.store, self._upload.key
        # MD5 takes one core-second per 700 MB: use it only if the server has nothing better.
        crc32 = self._crc(number) if begun.crc32 else None
        md5 = None if begun.crc32 else self._source.digested(start, length, hashlib.md5())
        with _Counted(self._upload.progress) as counted:
            body = self._source.pieces(start, length, None, counted.add)
            etag = store.s3.put_part(
                *(store.bucket, key, begun.id, number), body, length, crc32, md5
            )
            check_part(store, key, begun, etag, md5)
        if crc32 is not None:
            self._crcs[number] = crc32
        return etag


def check_arrived(store: ObjectStore, key: str, etag: str, md5: bytes) -> None:
    """Raise Damaged unless the object just written matches this MD5."""
    store.check_answered(key, etag)
    if is_wrong(etag, md5.hex(), lambda: store.stat(key).etag):
        raise damaged(store, key)


def check_part(store: ObjectStore, key: str, begun: Begun, etag: str, md5: bytes | None) -> None:
    """Raise Damaged unless the part just sent matches this MD5."""
    store.check_answered(key, etag)
    if md5 is not None and not begun.encrypted and is_md5(etag) and etag != md5.hex():
        raise damaged(store, key)
