"""Object to object: inside the server if both are on the same one, else through this machine.

Big objects are sent in parts and resumed after an interruption (`unfinished`)."""

import hashlib
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from jumar.store.base import Entry
from jumar.store.errors import Damaged, patiently
from jumar.store.objects import ObjectStore
from jumar.store.transfer.records import SMALL_BYTES, Options, Progress
from jumar.store.transfer.unfinished import Unfinished
from jumar.store.transfer.verify import check_arrived, check_part, is_wrong

_MOST_COPIED_BYTES = 5 << 30
# Parts are held in memory, since servers want their checksum before their bytes.
_MOST_HELD_BYTES = 48 << 20


class _Room:
    """Memory for parts, shared by all threads; a part that is larger than all of it is alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._freed = threading.Condition()

    @contextmanager
    def taken(self, size: int) -> Generator[None]:
        with self._freed:
            self._freed.wait_for(lambda: not self._taken or self._taken + size <= self._most)
            self._taken += size
        try:
            yield
        finally:
            with self._freed:
                self._taken -= size
                self._freed.notify_all()


_room = _Room(_MOST_HELD_BYTES)


def copy_between(
    source: ObjectStore,
    entry: Entry,
    target: ObjectStore,
    key: str,
    options: Options,
    progress: Progress,
    state: Path,
) -> None:
    """Copy one object."""
    same = source.endpoint == target.endpoint and entry.size <= _MOST_COPIED_BYTES
    if not same and entry.size > SMALL_BYTES:
        place = f"{source.endpoint.url}\0{source.bucket}\0{entry.key}"
        version = {"etag": entry.etag, "mtime": entry.mtime}
        unfinished = Unfinished(target, key, entry.size, place, version, options, progress, state)
        unfinished.anew_if_lost(lambda: _pass_parts(source, entry, unfinished))
        return

    def copy() -> None:
        if same:
            target.copy_from(source, entry.key, key)
        else:
            _pass_whole(source, entry, target, key)

    patiently(copy, options.patience, progress.stop)
    progress.add_bytes(entry.size)


def _pass_whole(source: ObjectStore, entry: Entry, target: ObjectStore, key: str) -> None:
    data, etag = source.get_small(entry.key)
    md5 = hashlib.md5(data).digest()
    if len(data) != entry.size or is_wrong(source, entry.key, etag, md5.hex()):
        raise Damaged(f"{source.name}{entry.key}: the downloaded data does not match the listing")
    check_arrived(target, key, target.put_small(key, data, md5), md5)


def _pass_parts(source: ObjectStore, entry: Entry, unfinished: Unfinished) -> None:
    target, key = unfinished.store, unfinished.key
    begun, etags = unfinished.take_up(crc32=False)

    def carry(number: int) -> str:
        start, length = unfinished.range(number)
        with _room.taken(length):
            return pass_one(number, start, length)

    def pass_one(number: int, start: int, length: int) -> str:
        data = source.read(entry.key, start, length)
        if len(data) != length:
            raise Damaged(f"{source.name}{entry.key}: a range arrived incomplete")
        place = (target.bucket, key, begun.id, number)
        md5 = hashlib.md5(data).digest()
        etag = target.call(key, lambda: target.s3.put_part(*place, data, length, md5=md5))
        check_part(target, key, begun, etag, md5)
        unfinished.progress.add_bytes(length)
        unfinished.progress.crew.carried(length)
        return etag

    missing = [number for number in range(1, unfinished.count + 1) if number not in etags]
    progress = unfinished.progress
    sent = progress.crew.each(
        lambda number: unfinished.patiently(lambda: carry(number)), missing, progress.stop
    )
    etags.update(zip(missing, sent, strict=True))
    if unfinished.patiently(lambda: source.stat(entry.key)).etag != entry.etag:
        # Parts of both versions may be in it: the next try starts over.
        unfinished.forget()
        raise Damaged(f"{source.name}{entry.key} was replaced during the copy; run it again")
    unfinished.complete(begun, etags)
