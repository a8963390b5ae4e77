"""An upload in parts that can be resumed, wherever its bytes come from.

It is recorded in the state folder; on resumption the server is asked which parts have arrived."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from jumar.errors import JumarError, NotFound
from jumar.inject.moxing_path.jumar_s3 import (
    Begun,
    discard_upload,
    part_bytes,
    part_count,
    part_range,
    tag_of_parts,
)
from jumar.inject.moxing_path.jumar_s3.checksum import is_md5, parts_in_tag
from jumar.store.errors import Damaged, patiently
from jumar.store.folder import explained
from jumar.store.objects import ObjectStore
from jumar.store.transfer.records import Options, Progress
from jumar.wholefile import write_whole

T = TypeVar("T")


def damaged(store: ObjectStore, key: str) -> Damaged:
    """The error for a wrong checksum."""
    return Damaged(
        f"{store.name}{key}: the uploaded data has the wrong checksum",
        hint="the network or the server corrupts data; run it again",
    )


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The upload of one object in parts."""

    store: ObjectStore
    key: str
    size: int
    source: str
    """Where the bytes come from, as a unique string."""
    version: Mapping[str, Any]
    """Identifies the state of the source."""
    options: Options
    progress: Progress
    state: Path | None
    """Where it is recorded; without, it is not resumed and leaves nothing behind."""

    @property
    def count(self) -> int:
        """How many parts there are; they are numbered from 1."""
        return part_count(self.size)

    def range(self, number: int) -> tuple[int, int]:
        """Where a part starts, and its length."""
        return part_range(self.size, number)

    def carry(
        self,
        send: Callable[[Begun, list[int]], list[str]],
        *,
        crc32: bool,
        crc32_of_all: Callable[[], bytes] = bytes,
    ) -> None:
        """The whole upload: `send` gives the tags of the missing parts. Once more from the start if the
        server no longer knows it, because another server has taken its place."""
        before = self.progress.bytes
        try:
            self._carry_once(send, crc32, crc32_of_all)
        except NotFound:
            self._forget()
            self.progress.add_bytes(before - self.progress.bytes)
            self._carry_once(send, crc32, crc32_of_all)

    def _carry_once(
        self,
        send: Callable[[Begun, list[int]], list[str]],
        crc32: bool,
        crc32_of_all: Callable[[], bytes],
    ) -> None:
        begun, etags = self._resumed() or (self._begun(crc32=crc32), {})
        try:
            missing = [number for number in range(1, self.count + 1) if number not in etags]
            etags.update(zip(missing, send(begun, missing), strict=True))
            self._complete(begun, etags, crc32_of_all() if begun.crc32 else None)
        except BaseException:
            if self.state is None:
                self.give_up(begun)
            raise

    def patiently(self, action: Callable[[], T]) -> T:
        """Ask the server, retrying while it is away."""
        call = partial(self.store.call, self.key, action)
        return patiently(call, self.options.patience, self.progress.stop)

    def _begun(self, *, crc32: bool) -> Begun:
        bucket, s3 = self.store.bucket, self.store.s3
        made = self.patiently(lambda: s3.create_upload(bucket, self.key, crc32=crc32))
        try:
            self._note(made)
        except JumarError:
            self.give_up(made)
            raise
        return made

    def _note(self, made: Begun) -> None:
        journal = self._journal()
        if journal is None:
            return
        known = {"upload": made.id, "crc32": made.crc32, "encrypted": made.encrypted}
        values = {**known, **self._identity()}
        try:
            journal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(journal, json.dumps(values))
        except OSError as error:
            raise explained(error, str(journal)) from error

    def _resumed(self) -> tuple[Begun, dict[int, str]] | None:
        journal = self._journal()
        try:
            if journal is None:
                return None
            values = cast("dict[str, Any]", json.loads(journal.read_text("utf-8")))
            begun = Begun(
                str(values.pop("upload")),
                bool(values.pop("crc32")),
                bool(values.pop("encrypted", False)),
            )
        except (OSError, ValueError, KeyError):
            return None
        if values != self._identity():
            # The source has changed since: nobody will complete that one.
            self.give_up(begun)
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

    def _complete(self, begun: Begun, etags: Mapping[int, str], crc32: bytes | None = None) -> None:
        """Complete the object from its parts, and compare its tag with theirs."""
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
            # It may have been completed before, with only the answer lost. An earlier object may
            # have the same size: only the checksum can tell.
            found = self.patiently(lambda: s3.kept(bucket, self.key))
            if found.size != self.size or (
                found.etag != wanted and (crc32 is None or found.crc32 != crc32)
            ):
                raise
            etag = found.etag
        except Damaged:
            # Parts of an earlier try do not match the source: the next try starts over.
            self.give_up(begun)
            raise
        self._forget()
        if wanted and parts_in_tag(etag) and etag != wanted:
            # Not every answer says that the object is encrypted; the one to HEAD does.
            found_tag = self.patiently(lambda: s3.head(bucket, self.key)).etag
            if parts_in_tag(found_tag) and found_tag != wanted:
                raise damaged(self.store, self.key)

    def give_up(self, begun: Begun) -> None:
        """Do not resume it again, and free its space on the server."""
        self._forget()
        discard_upload(self.store.s3, (self.store.bucket, self.key), begun.id)

    def _forget(self) -> None:
        journal = self._journal()
        if journal is not None:
            journal.unlink(missing_ok=True)

    def _journal(self) -> Path | None:
        if self.state is None:
            return None
        place = f"{self.store.endpoint.url}\0{self.store.bucket}\0{self.key}\0{self.source}"
        name = hashlib.sha256(os.fsencode(place)).hexdigest()[:32]
        return self.state / f"upload-{name}.json"

    def _identity(self) -> dict[str, Any]:
        return {**self.version, "size": self.size, "part_bytes": part_bytes(self.size)}
