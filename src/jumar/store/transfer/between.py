"""Object to object: inside the server if both are on the same one, else through this machine.

Big objects are sent in parts and resumed after an interruption (`unfinished`)."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from jumar.inject.moxing_path.jumar_s3 import PART_BYTES, Begun, room
from jumar.inject.moxing_path.jumar_s3.checksum import is_wrong
from jumar.store.base import Entry
from jumar.store.errors import Damaged, patiently
from jumar.store.objects import ObjectStore
from jumar.store.transfer.records import Options, Progress
from jumar.store.transfer.unfinished import Unfinished
from jumar.store.transfer.upload import check_arrived, check_part

T = TypeVar("T")


def copy_between(
    source: ObjectStore,
    entry: Entry,
    target: ObjectStore,
    key: str,
    options: Options,
    progress: Progress,
    state: Path | None,
) -> None:
    """Copy one object."""
    if source.endpoint == target.endpoint:

        def ask(action: Callable[[], T]) -> T:
            call = partial(target.call, key, action)
            return patiently(call, options.patience, progress.stop)

        target.copy_from(source, entry, key, progress.crew, ask)
        progress.add_bytes(entry.size)
    elif entry.size <= PART_BYTES:
        with room.taken(entry.size):
            passing = partial(_pass_whole, source, entry, target, key)
            patiently(passing, options.patience, progress.stop)
        progress.add_bytes(entry.size)
    else:
        place = f"{source.endpoint.url}\0{source.bucket}\0{entry.key}"
        version = {"etag": entry.etag, "mtime": entry.mtime}
        unfinished = Unfinished(target, key, entry.size, place, version, options, progress, state)

        def replaced() -> Damaged | None:
            if unfinished.patiently(lambda: source.stat(entry.key)).etag == entry.etag:
                return None
            return Damaged(f"{source.name}{entry.key} was replaced during the copy; run it again")

        passing = partial(_pass_part, source, entry, target, key, progress)
        unfinished.parted().carry(passing, check=replaced)


def _pass_whole(source: ObjectStore, entry: Entry, target: ObjectStore, key: str) -> None:
    data, etag = source.get_small(entry.key)
    md5 = hashlib.md5(data).digest()
    if len(data) != entry.size or is_wrong(etag, md5.hex(), lambda: source.stat(entry.key).etag):
        raise Damaged(f"{source.name}{entry.key}: the downloaded data does not match the listing")
    check_arrived(target, key, target.put_small(key, data, md5), md5)


def _pass_part(
    source: ObjectStore,
    entry: Entry,
    target: ObjectStore,
    key: str,
    progress: Progress,
    begun: Begun,
    number: int,
    start: int,
    length: int,
) -> str:
    with room.taken(length):
        data = source.read(entry.key, start, length)
        if len(data) != length:
            raise Damaged(f"{source.name}{entry.key}: a range arrived incomplete")
        md5 = hashlib.md5(data).digest()
        etag = target.s3.put_part(target.bucket, key, begun.id, number, data, length, md5=md5)
        check_part(target, key, begun, etag, md5)
    progress.add_bytes(length)
    return etag
