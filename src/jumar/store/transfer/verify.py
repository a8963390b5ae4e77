"""Whether a file on this machine is the object that a server has, byte for byte."""

import hashlib

from jumar.store.base import Entry
from jumar.store.objects import ObjectStore
from jumar.store.transfer.checksum import is_md5, parts_in_tag, same_parts
from jumar.store.transfer.records import PART_BYTES

_STEP_BYTES = 1 << 20


def is_same(path: str, store: ObjectStore, entry: Entry) -> bool:
    """Whether the file's bytes are what the object's tag says; tags that say nothing pass."""
    if is_md5(entry.etag):
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "md5").hexdigest() == entry.etag
    if not parts_in_tag(entry.etag):
        return True
    found = store.call(entry.key, lambda: store.s3.part_bytes(store.bucket, entry.key))
    return same_parts(entry.etag, _part_digests(path, found or PART_BYTES)) is not False


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
