"""Object to object: inside the server where it is the same one, else through this machine."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

from jumar.store.base import Entry
from jumar.store.errors import Damaged
from jumar.store.objects import ObjectStore
from jumar.store.retry import patiently
from jumar.store.transfer.checksum import is_md5
from jumar.store.transfer.records import SMALL_BYTES, Options, Progress, part_bytes

_MOST_COPIED_BYTES = 5 << 30
_PIPE_WORKERS = 4


def copy_between(
    source: ObjectStore,
    entry: Entry,
    target: ObjectStore,
    key: str,
    options: Options,
    progress: Progress,
) -> None:
    """Copy one object."""
    same = source.endpoint == target.endpoint and entry.size <= _MOST_COPIED_BYTES

    def copy() -> None:
        if same:
            target.copy_from(source, entry.key, key)
        elif entry.size <= SMALL_BYTES:
            _pass_whole(source, entry, target, key)
        else:
            _pass_parts(source, entry, target, key)

    patiently(copy, options.patience, f"{target.name}{key}", progress.stop)
    progress.add_bytes(entry.size)


def _pass_whole(source: ObjectStore, entry: Entry, target: ObjectStore, key: str) -> None:
    data, etag = source.get_small(entry.key)
    digest = hashlib.md5(data).hexdigest()
    if len(data) != entry.size or (is_md5(etag) and etag != digest):
        raise Damaged(f"{source.name}{entry.key}: what came is not what the listing says")
    arrived = target.put_small(key, data)
    if is_md5(arrived) and arrived != digest:
        raise Damaged(f"{target.name}{key}: the checksum of what arrived is wrong")


def _pass_parts(source: ObjectStore, entry: Entry, target: ObjectStore, key: str) -> None:
    step = part_bytes(entry.size)
    upload = target.call(key, lambda: target.s3.create_upload(target.bucket, key)).id

    def carry(number: int) -> str:
        start = number * step
        length = min(step, entry.size - start)
        data = source.read(entry.key, start, length)
        if len(data) != length:
            raise Damaged(f"{source.name}{entry.key}: a range came short")
        etag = target.call(
            key,
            lambda: target.s3.put_part(target.bucket, key, upload, number + 1, data, length),
        )
        if is_md5(etag) and etag != hashlib.md5(data).hexdigest():
            raise Damaged(f"{target.name}{key}: the checksum of what arrived is wrong")
        return etag

    try:
        with ThreadPoolExecutor(_PIPE_WORKERS) as pool:
            etags = list(pool.map(carry, range(-(-entry.size // step))))
        target.call(key, lambda: target.s3.complete_upload(target.bucket, key, upload, etags))
    except BaseException:
        target.call(key, lambda: target.s3.abort_upload(target.bucket, key, upload))
        raise
