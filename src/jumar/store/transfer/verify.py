"""Whether a file matches an object, as far as its tag tells."""

import hashlib

from jumar.inject.moxing_path.jumar_s3 import PART_BYTES
from jumar.inject.moxing_path.jumar_s3.checksum import is_md5, is_wrong, parts_in_tag, same_parts
from jumar.store.base import Entry
from jumar.store.objects import ObjectStore

_STEP_BYTES = 1 << 20


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
