"""Whether local bytes match an object, as far as its tag tells."""

import hashlib

from jumar.inject.moxing_path.jumar_s3 import PART_BYTES, Begun
from jumar.inject.moxing_path.jumar_s3.checksum import is_md5, is_wrong, parts_in_tag, same_parts
from jumar.store.base import Entry
from jumar.store.errors import StoreAway
from jumar.store.objects import ObjectStore
from jumar.store.transfer.unfinished import damaged

_STEP_BYTES = 1 << 20


def check_arrived(store: ObjectStore, key: str, etag: str, md5: bytes) -> None:
    """Raise Damaged unless the object just written matches this MD5."""
    check_answered(store, key, etag)
    if is_wrong(etag, md5.hex(), lambda: store.stat(key).etag):
        raise damaged(store, key)


def check_part(store: ObjectStore, key: str, begun: Begun, etag: str, md5: bytes | None) -> None:
    """Raise Damaged unless the part just sent matches this MD5."""
    check_answered(store, key, etag)
    if md5 is not None and not begun.encrypted and is_md5(etag) and etag != md5.hex():
        raise damaged(store, key)


def check_answered(store: ObjectStore, key: str, etag: str) -> None:
    """Raise StoreAway if the answer is not from an S3 server: any server may answer 200, but only one
    that stores objects gives them tags."""
    if not etag:
        raise StoreAway(
            f"{store.endpoint.url} answered for {store.name}{key} without a tag, so it is not an S3 server",
            hint="is another program using the server's port?",
        )


def is_same(path: str, store: ObjectStore, entry: Entry) -> bool:
    """Whether the file matches the object's tag; tags that are no checksums pass."""
    if is_md5(entry.etag):
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "md5").hexdigest()
        return not is_wrong(entry.etag, digest, lambda: store.stat(entry.key).etag)
    if not parts_in_tag(entry.etag):
        return True
    found = store.call(entry.key, lambda: store.s3.part_bytes(store.bucket, entry.key))
    digests = _part_digests(path, found or PART_BYTES)
    return (
        same_parts(entry.etag, digests) is not False
        or same_parts(store.stat(entry.key).etag, digests) is not False
    )


def _part_digests(path: str, part_bytes: int) -> list[bytes]:
    digests: list[bytes] = []
    with open(path, "rb") as file:
        while True:
            digest, left = hashlib.md5(), part_bytes
            while left and (data := file.read(min(_STEP_BYTES, left))):
                digest.update(data)
                left -= len(data)
            if left == part_bytes:
                return digests
            digests.append(digest.digest())
