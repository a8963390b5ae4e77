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

from jumar.errors import NotFound
from jumar.inject.moxing_path.jumar_s3 import Begun, discard_upload, part_bytes
from jumar.inject.moxing_path.jumar_s3.parted import Notes, Parted, Terms
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
    """The upload of one object in parts, with what it needs."""

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

    def parted(self) -> Parted:
        """To be carried."""
        notes = _Counted(self) if self.state is None else _Journal(self, self._place(self.state))
        terms = Terms(
            self.patiently,
            NotFound,
            Damaged,
            partial(damaged, self.store, self.key),
            self.progress.crew,
            self.progress.stop,
        )
        return Parted(self.store.s3, (self.store.bucket, self.key), self.size, terms, notes)

    def patiently(self, action: Callable[[], T]) -> T:
        """Ask the server, retrying while it is away."""
        call = partial(self.store.call, self.key, action)
        return patiently(call, self.options.patience, self.progress.stop)

    def identity(self) -> dict[str, Any]:
        """What must be the same to go on with it."""
        return {**self.version, "size": self.size, "part_bytes": part_bytes(self.size)}

    def _place(self, state: Path) -> Path:
        place = f"{self.store.endpoint.url}\0{self.store.bucket}\0{self.key}\0{self.source}"
        name = hashlib.sha256(os.fsencode(place)).hexdigest()[:32]
        return state / f"upload-{name}.json"


class _Counted(Notes):
    """Takes back what was counted of bytes that the server has lost."""

    def __init__(self, upload: Unfinished) -> None:
        self._upload = upload
        self._before = upload.progress.bytes

    def lost(self) -> None:
        progress = self._upload.progress
        progress.add_bytes(self._before - progress.bytes)


class _Journal(_Counted):
    """A file in the state folder."""

    keeps = True

    def __init__(self, upload: Unfinished, path: Path) -> None:
        super().__init__(upload)
        self._path = path

    def begun(self) -> Begun | None:
        try:
            values = cast("dict[str, Any]", json.loads(self._path.read_text("utf-8")))
            begun = Begun(
                str(values.pop("upload")),
                bool(values.pop("crc32")),
                bool(values.pop("encrypted", False)),
            )
        except (OSError, ValueError, KeyError):
            return None
        if values == self._upload.identity():
            return begun
        # The source has changed since: nobody will complete that one.
        self.forget()
        store = self._upload.store
        discard_upload(store.s3, (store.bucket, self._upload.key), begun.id)
        return None

    def write(self, begun: Begun) -> None:
        known = {"upload": begun.id, "crc32": begun.crc32, "encrypted": begun.encrypted}
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._path, json.dumps({**known, **self._upload.identity()}))
        except OSError as error:
            raise explained(error, str(self._path)) from error

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)

    def resumed(self, size: int) -> None:
        self._upload.progress.resume(size)
