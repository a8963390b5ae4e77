"""Whether the bytes of this machine are those of an object, as far as its tag tells."""

import hashlib

from jumar.inject.moxing_path.jumar_s3 import Begun
from jumar.store.base import Entry
from jumar.store.errors import StoreAway
from jumar.store.objects import ObjectStore
from jumar.store.transfer.checksum import is_md5, parts_in_tag, same_parts
from jumar.store.transfer.records import PART_BYTES
from jumar.store.transfer.unfinished import damaged

_STEP_BYTES = 1 << 20


def is_wrong(store: ObjectStore, key: str, etag: str, md5: str) -> bool:
    """Whether the object has other bytes than those with this MD5; tags that say nothing pass."""
    if not is_md5(etag) or etag == md5:
        return False
    # Not each answer tells that the object is encrypted; the one to HEAD does.
    found = store.stat(key).etag
    return is_md5(found) and found != md5


def check_arrived(store: ObjectStore, key: str, etag: str, md5: bytes) -> None:
    """Damaged unless the object that was just written has the bytes with this MD5."""
    check_answered(store, key, etag)
    if is_wrong(store, key, etag, md5.hex()):
        raise damaged(store, key)


def check_part(store: ObjectStore, key: str, begun: Begun, etag: str, md5: bytes | None) -> None:
    """Damaged unless the part that was just sent has the bytes with this MD5."""
    check_answered(store, key, etag)
    if md5 is not None and not begun.encrypted and is_md5(etag) and etag != md5.hex():
        raise damaged(store, key)


def check_answered(store: ObjectStore, key: str, etag: str) -> None:
    """StoreAway when it was not an S3 server that answered: any server may say 200, but one that keeps
    objects gives each a tag."""
    if not etag:
        raise StoreAway(
            f"{store.endpoint.url} answered for {store.name}{key} without a tag: no S3 server does",
            hint="has another program taken the server's port?",
        )


def is_same(path: str, store: ObjectStore, entry: Entry) -> bool:
    """Whether the file's bytes are what the object's tag says; tags that say nothing pass."""
    if is_md5(entry.etag):
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "md5").hexdigest()
        return not is_wrong(store, entry.key, entry.etag, digest)
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
