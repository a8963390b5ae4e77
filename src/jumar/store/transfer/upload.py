"""A local file to an object: in one request, or in parts that survive being cut.

An upload in parts goes on where it was cut (`unfinished`). Every part's checksum is compared: by the server where it knows
CRC-32, else here with the server's tag, an MD5."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jumar.inject.moxing_path.jumar_s3 import Begun
from jumar.store.objects import ObjectStore
from jumar.store.parallel import in_threads
from jumar.store.retry import patiently
from jumar.store.transfer.checksum import Crc32, is_md5, joined_crc32
from jumar.store.transfer.records import BIG_BYTES, SMALL_BYTES, Options, Progress
from jumar.store.transfer.source import SourceFile
from jumar.store.transfer.unfinished import Unfinished, damaged

# Three parts of 8 MiB are on their way at a time: so little is ever sent twice.
PART_WORKERS = 3
_TRIES_WHILE_CHANGING = 3


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload and what it needs."""

    store: ObjectStore
    key: str
    path: str
    options: Options
    progress: Progress
    state: Path

    def run(self) -> str | None:
        """Send the file; gives a note when it was still changing at the last try."""
        for attempt in range(1, _TRIES_WHILE_CHANGING + 1):
            with SourceFile(self.path) as source:
                self._send(source)
                if not source.changed():
                    return None
            if self.progress.stop.is_set():
                break
            if attempt < _TRIES_WHILE_CHANGING:
                self.progress.add_bytes(-source.identity.size)
        return f"{self.path} changed while it was copied; run it again when it rests"

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
        """Do it, again while the store is away."""
        what = f"{self.store.name}{self.key}"
        patiently(action, self.options.patience, what, self.progress.stop)

    def _send_small(self, source: SourceFile) -> None:
        data = source.all()
        etag = self.store.put_small(self.key, data)
        if is_md5(etag) and hashlib.md5(data).hexdigest() != etag:
            raise damaged(self.store, self.key)

    def _send_stream(self, source: SourceFile) -> None:
        digest, size = hashlib.md5(), source.identity.size
        counted = _Counted(self.progress)
        with counted:
            body = source.pieces(0, size, digest, counted.add)
            etag = self.store.call(
                self.key, lambda: self.store.s3.put(self.store.bucket, self.key, body, size)
            )
            if is_md5(etag) and digest.hexdigest() != etag:
                raise damaged(self.store, self.key)


class _Counted:
    """Bytes counted on the way; uncounted again when the way breaks."""

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
        self._unfinished = Unfinished(
            *(upload.store, upload.key, source.identity.size, upload.path),
            {"mtime_ns": source.identity.mtime_ns},
            *(upload.options, upload.progress, upload.state),
        )
        self._crcs: dict[int, bytes] = {}

    def run(self) -> None:
        """Send what is missing, then make the object of it."""
        begun, etags = self._unfinished.take_up(crc32=True)
        missing = [n for n in range(1, self._unfinished.count + 1) if n not in etags]
        sent = in_threads(lambda number: self._send_part(begun, number), missing, PART_WORKERS)
        etags.update(zip(missing, sent, strict=True))
        self._unfinished.complete(begun, etags, self._crc32() if begun.crc32 else None)

    def _crc(self, number: int) -> bytes:
        """The checksum of a part, by reading it: the server wants it before the bytes."""
        digest = Crc32()
        for _ in self._source.pieces(*self._unfinished.range(number), digest, lambda _: None):
            pass
        return digest.digest()

    def _crc32(self) -> bytes:
        """Of the whole file; parts that an earlier try has sent are read again for it."""
        numbers = range(1, self._unfinished.count + 1)
        return joined_crc32(
            (self._crcs.get(n) or self._crc(n), self._unfinished.range(n)[1]) for n in numbers
        )

    def _send_part(self, begun: Begun, number: int) -> str:
        store, key = self._upload.store, self._upload.key
        start, length = self._unfinished.range(number)

        def send() -> str:
            # MD5 takes a core a second for 700 MB: only where nothing else can tell.
            crc32 = self._crc(number) if begun.crc32 else None
            md5 = None if begun.crc32 else hashlib.md5()
            with _Counted(self._upload.progress) as counted:
                body = self._source.pieces(start, length, md5, counted.add)
                etag = store.s3.put_part(
                    *(store.bucket, key, begun.id, number), body, length, crc32
                )
                if md5 is not None and is_md5(etag) and md5.hexdigest() != etag:
                    raise damaged(store, key)
            if crc32 is not None:
                self._crcs[number] = crc32
            return etag

        return self._unfinished.patiently(send, part=number)
