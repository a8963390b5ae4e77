"""An upload in parts that survives being cut, wherever its bytes come from.

It is remembered in the state folder; taken up again, the server is asked which parts have arrived."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from jumar.errors import NotFound
from jumar.inject.moxing_path.jumar_s3 import Begun
from jumar.store.errors import Damaged
from jumar.store.folder import explained
from jumar.store.objects import ObjectStore
from jumar.store.retry import patiently
from jumar.store.transfer.checksum import is_md5, parts_in_tag, tag_of_parts
from jumar.store.transfer.records import Options, Progress, part_bytes

T = TypeVar("T")


def damaged(store: ObjectStore, key: str) -> Damaged:
    """The error for a checksum that differs."""
    return Damaged(
        f"{store.name}{key}: the checksum of what arrived is wrong",
        hint="the network or the server changes bytes; run it again",
    )


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The upload of one object in parts."""

    store: ObjectStore
    key: str
    size: int
    source: str
    """Where the bytes come from, in a word that no other source has."""
    version: Mapping[str, Any]
    """What tells one state of the source from another."""
    options: Options
    progress: Progress
    state: Path

    @property
    def count(self) -> int:
        """How many parts there are; they have numbers from 1 on."""
        return -(-self.size // part_bytes(self.size))

    def range(self, number: int) -> tuple[int, int]:
        """Where a part starts, and its length."""
        step = part_bytes(self.size)
        start = (number - 1) * step
        return start, min(step, self.size - start)

    def take_up(self, *, crc32: bool) -> tuple[Begun, dict[int, str]]:
        """The upload, begun now or before, and the tags of the parts that have arrived."""
        return self._resumed() or (self._begun(crc32=crc32), {})

    def patiently(self, action: Callable[[], T], part: int | None = None) -> T:
        """Ask the server, again while it is away."""
        what = f"{self.store.name}{self.key}" + (f" part {part}" if part else "")
        return patiently(
            lambda: self.store.call(self.key, action),
            self.options.patience,
            what,
            self.progress.stop,
        )

    def _begun(self, *, crc32: bool) -> Begun:
        bucket, s3 = self.store.bucket, self.store.s3
        made = self.patiently(lambda: s3.create_upload(bucket, self.key, crc32=crc32))
        journal = self._journal()
        aside = journal.with_suffix(f".{os.getpid()}")
        known = {"upload": made.id, "crc32": made.crc32, "encrypted": made.encrypted}
        values = {**known, **self._identity()}
        try:
            journal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            aside.write_text(json.dumps(values), "utf-8")
            aside.replace(journal)
        except OSError as error:
            raise explained(error, str(journal)) from error
        return made

    def _resumed(self) -> tuple[Begun, dict[int, str]] | None:
        try:
            values = cast("dict[str, Any]", json.loads(self._journal().read_text("utf-8")))
            begun = Begun(
                str(values.pop("upload")),
                bool(values.pop("crc32")),
                bool(values.pop("encrypted", False)),
            )
        except (OSError, ValueError, KeyError):
            return None
        if values != self._identity():
            return None
        bucket, s3 = self.store.bucket, self.store.s3
        try:
            parts = self.patiently(lambda: s3.parts(bucket, self.key, begun.id))
        except NotFound:
            return None
        etags = {
            part.number: part.etag for part in parts if part.size == self.range(part.number)[1]
        }
        self.progress.resume(sum(self.range(number)[1] for number in etags))
        return begun, etags

    def complete(self, begun: Begun, etags: Mapping[int, str], crc32: bytes | None = None) -> None:
        """Make the object of its parts, and compare its tag with theirs."""
        listed = [etags[number] for number in sorted(etags)]
        wanted = ""
        if all(map(is_md5, listed)) and not begun.encrypted:
            wanted = tag_of_parts(list(map(bytes.fromhex, listed)))
        bucket, s3 = self.store.bucket, self.store.s3

        def complete() -> str:
            return s3.complete_upload(bucket, self.key, begun.id, listed, crc32)

        try:
            etag = self.patiently(complete)
        except NotFound:
            # It may have been completed before, and only the answer was lost. An object that was
            # there before may be as large: only its checksum can say.
            found = self.patiently(lambda: s3.kept(bucket, self.key))
            if found.size != self.size or (
                found.etag != wanted and (crc32 is None or found.crc32 != crc32)
            ):
                raise
            etag = found.etag
        except Damaged:
            # Parts of an earlier try are not the source's: the next one begins anew.
            self.forget()
            raise
        self.forget()
        if wanted and parts_in_tag(etag) and etag != wanted:
            # Not each answer tells that the object is encrypted; the one to HEAD does.
            found_tag = self.patiently(lambda: s3.head(bucket, self.key)).etag
            if parts_in_tag(found_tag) and found_tag != wanted:
                raise damaged(self.store, self.key)

    def anew_if_lost(self, action: Callable[[], None]) -> None:
        """The whole upload; once more from its beginning where the server does not know it any more,
        because another one has taken its place."""
        before = self.progress.bytes
        try:
            action()
        except NotFound:
            self.forget()
            self.progress.add_bytes(before - self.progress.bytes)
            action()

    def forget(self) -> None:
        """Take it up no more."""
        self._journal().unlink(missing_ok=True)

    def _journal(self) -> Path:
        place = f"{self.store.endpoint.url}\0{self.store.bucket}\0{self.key}\0{self.source}"
        name = hashlib.sha256(os.fsencode(place)).hexdigest()[:32]
        return self.state / f"upload-{name}.json"

    def _identity(self) -> dict[str, Any]:
        return {**self.version, "size": self.size, "part_bytes": part_bytes(self.size)}
