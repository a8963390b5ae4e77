"""A local file to an object: in one request, or in parts that survive being cut.

An upload in parts goes on where it was cut (`unfinished`). The server is given the checksum of all that it gets, and
compares: of parts the CRC-32 where it knows that, else the MD5. Its tag is compared here too, where it tells anything."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jumar.inject.moxing_path.jumar_s3 import Begun
from jumar.store.errors import Damaged
from jumar.store.objects import ObjectStore
from jumar.store.parallel import in_threads
from jumar.store.retry import patiently
from jumar.store.transfer.checksum import Crc32, joined_crc32
from jumar.store.transfer.records import BIG_BYTES, SMALL_BYTES, Options, Progress
from jumar.store.transfer.source import SourceFile
from jumar.store.transfer.unfinished import Unfinished
from jumar.store.transfer.verify import check_arrived, check_part

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
            is_last = attempt == _TRIES_WHILE_CHANGING or self.progress.stop.is_set()
            with SourceFile(self.path) as source:
                try:
                    self._send(source)
                except Damaged:
                    # A file that changes after its checksum was taken is refused by the server.
                    if is_last or source.identity.size > BIG_BYTES or not source.changed():
                        raise
                    continue
                if not source.changed():
                    return None
            if is_last:
                break
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
        """Send what is missing, then make the object of it; anew where the server has lost it all."""
        self._unfinished.anew_if_lost(self._send)

    def _send(self) -> None:
        begun, etags = self._unfinished.take_up(crc32=True)
        missing = [n for n in range(1, self._unfinished.count + 1) if n not in etags]
        sent = in_threads(lambda number: self._send_part(begun, number), missing, PART_WORKERS)
        etags.update(zip(missing, sent, strict=True))
        self._unfinished.complete(begun, etags, self._crc32() if begun.crc32 else None)

    def _crc(self, number: int) -> bytes:
        """The checksum of a part."""
        return self._source.digested(*self._unfinished.range(number), Crc32())

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

        return self._unfinished.patiently(send, part=number)
