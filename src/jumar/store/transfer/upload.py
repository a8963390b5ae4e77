"""A local file to an object: in one request, or in parts that survive being cut.

An upload in parts is remembered in the state folder; run again, it asks the server which parts
have arrived and sends the others. Every part's checksum is compared: by the server where it knows
CRC-32, else here with the server's tag, an MD5."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from jumar.errors import NotFound
from jumar.inject.moxing_path.jumar_s3 import Begun
from jumar.store.errors import Damaged
from jumar.store.folder import explained
from jumar.store.objects import ObjectStore
from jumar.store.parallel import in_threads
from jumar.store.retry import patiently
from jumar.store.transfer.checksum import (
    Crc32,
    is_md5,
    joined_crc32,
    parts_in_tag,
    tag_of_parts,
)
from jumar.store.transfer.records import BIG_BYTES, SMALL_BYTES, Options, Progress, part_bytes
from jumar.store.transfer.source import SourceFile

# Three parts of 5 MiB are on their way at a time: so little is ever sent twice.
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
            raise self.damaged()

    def _send_stream(self, source: SourceFile) -> None:
        digest, size = hashlib.md5(), source.identity.size
        counted = _Counted(self.progress)
        with counted:
            body = source.pieces(0, size, digest, counted.add)
            etag = self.store.call(
                self.key, lambda: self.store.s3.put(self.store.bucket, self.key, body, size)
            )
            if is_md5(etag) and digest.hexdigest() != etag:
                raise self.damaged()

    def damaged(self) -> Damaged:
        """The error for a checksum that differs."""
        return Damaged(
            f"{self.store.name}{self.key}: the checksum of what arrived is wrong",
            hint="the network or the server changes bytes; run it again",
        )


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
        self._store = upload.store
        self._size = source.identity.size
        self._part_bytes = part_bytes(self._size)
        self._count = -(-self._size // self._part_bytes)
        place = f"{self._store.endpoint.url}\0{self._store.bucket}\0{upload.key}\0{upload.path}"
        name = hashlib.sha256(os.fsencode(place)).hexdigest()[:32]
        self._journal = upload.state / f"upload-{name}.json"
        self._crcs: dict[int, bytes] = {}

    def run(self) -> None:
        """Send what is missing, then make the object of it."""
        begun, etags = self._resumed() or self._begun()
        missing = [n for n in range(1, self._count + 1) if n not in etags]
        sent = in_threads(lambda number: self._send_part(begun, number), missing, PART_WORKERS)
        etags.update(zip(missing, sent, strict=True))
        crc32 = self._crc32() if begun.crc32 else None
        self._upload.patiently(
            lambda: self._complete(begun.id, [etags[n] for n in range(1, self._count + 1)], crc32)
        )
        self._journal.unlink(missing_ok=True)

    def _range(self, number: int) -> tuple[int, int]:
        start = (number - 1) * self._part_bytes
        return start, min(self._part_bytes, self._size - start)

    def _call(self, action: Callable[[], Any]) -> Any:
        return self._store.call(self._upload.key, action)

    def _begun(self) -> tuple[Begun, dict[int, str]]:
        bucket, key = self._store.bucket, self._upload.key
        made = patiently(
            lambda: self._call(lambda: self._store.s3.create_upload(bucket, key, crc32=True)),
            self._upload.options.patience,
            f"{self._store.name}{key}",
            self._upload.progress.stop,
        )
        self._remember(made)
        return made, {}

    def _remember(self, begun: Begun) -> None:
        aside = self._journal.with_suffix(f".{os.getpid()}")
        values = {"upload": begun.id, "crc32": begun.crc32, **self._identity()}
        try:
            self._journal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            aside.write_text(json.dumps(values), "utf-8")
            aside.replace(self._journal)
        except OSError as error:
            raise explained(error, str(self._journal)) from error

    def _identity(self) -> dict[str, int]:
        return {
            "size": self._size,
            "mtime_ns": self._source.identity.mtime_ns,
            "part_bytes": self._part_bytes,
        }

    def _resumed(self) -> tuple[Begun, dict[int, str]] | None:
        try:
            values = cast("dict[str, Any]", json.loads(self._journal.read_text("utf-8")))
            begun = Begun(str(values.pop("upload")), bool(values.pop("crc32")))
        except (OSError, ValueError, KeyError):
            return None
        if values != self._identity():
            return None
        try:
            parts = patiently(
                lambda: self._call(
                    lambda: self._store.s3.parts(self._store.bucket, self._upload.key, begun.id)
                ),
                self._upload.options.patience,
                f"{self._store.name}{self._upload.key}",
                self._upload.progress.stop,
            )
        except NotFound:
            return None
        etags = {
            part.number: part.etag for part in parts if part.size == self._range(part.number)[1]
        }
        self._upload.progress.resume(sum(self._range(number)[1] for number in etags))
        return begun, etags

    def _crc(self, number: int) -> bytes:
        """The checksum of a part, by reading it: the server wants it before the bytes."""
        start, length = self._range(number)
        digest = Crc32()
        for _ in self._source.pieces(start, length, digest, lambda _: None):
            pass
        return digest.digest()

    def _crc32(self) -> bytes:
        """Of the whole file; parts that an earlier try has sent are read again for it."""
        numbers = range(1, self._count + 1)
        return joined_crc32((self._crcs.get(n) or self._crc(n), self._range(n)[1]) for n in numbers)

    def _send_part(self, begun: Begun, number: int) -> str:
        start, length = self._range(number)
        place = (self._store.bucket, self._upload.key, begun.id, number)

        def send() -> str:
            # MD5 takes a core a second for 700 MB: only where nothing else can tell.
            crc32 = self._crc(number) if begun.crc32 else None
            md5 = None if begun.crc32 else hashlib.md5()
            counted = _Counted(self._upload.progress)
            with counted:
                body = self._source.pieces(start, length, md5, counted.add)
                etag = str(self._call(lambda: self._store.s3.put_part(*place, body, length, crc32)))
                if md5 is not None and is_md5(etag) and md5.hexdigest() != etag:
                    raise self._upload.damaged()
            if crc32 is not None:
                self._crcs[number] = crc32
            return etag

        what = f"{self._store.name}{self._upload.key} part {number}"
        return patiently(send, self._upload.options.patience, what, self._upload.progress.stop)

    def _complete(self, upload_id: str, etags: list[str], crc32: bytes | None) -> None:
        bucket, key = self._store.bucket, self._upload.key
        wanted = tag_of_parts([bytes.fromhex(e) for e in etags]) if all(map(is_md5, etags)) else ""
        try:
            etag = str(
                self._call(
                    lambda: self._store.s3.complete_upload(bucket, key, upload_id, etags, crc32)
                )
            )
        except NotFound:
            # It may have been completed before, and only the answer was lost.
            found = self._store.stat(key)
            if found.size != self._size:
                self._journal.unlink(missing_ok=True)
                raise
            etag = found.etag
        except Damaged:
            # Parts of an earlier try are not the file's: the next one begins anew.
            self._journal.unlink(missing_ok=True)
            raise
        if wanted and parts_in_tag(etag) and etag != wanted:
            self._journal.unlink(missing_ok=True)
            raise self._upload.damaged()
