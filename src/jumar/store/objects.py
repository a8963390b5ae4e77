"""A bucket of an S3 server (OBS is one) as a store.

It goes over our own small client, not over obstore, which has no resumable uploads, fails a whole
listing for one key such as `a//b`, changes keys with `%` or `#`, refuses servers that answer a range
with the whole, and takes more time for a small object."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

from jumar.errors import BadInput, NotFound
from jumar.inject.moxing_path.jumar_s3 import S3, Endpoint, Found, Page, S3Error, Tag, pages
from jumar.store.base import Entry, Listing
from jumar.store.explain import NETWORK, explain_network, explain_s3

logger = logging.getLogger(__name__)
T = TypeVar("T")
_MOST_KEY_BYTES = 1024
TIMEOUT_S = 60.0


class ObjectStore:
    """One bucket."""

    def __init__(
        self, endpoint: Endpoint, bucket: str, name: str, *, makes_bucket: bool = False
    ) -> None:
        try:
            self.s3 = S3(endpoint, TIMEOUT_S)
        except ValueError as error:
            raise BadInput(
                str(error), hint="such as https://obs.cn-north-4.myhuaweicloud.com"
            ) from error
        self.endpoint = endpoint
        self.bucket = bucket
        self._makes_bucket = makes_bucket
        self._name = name

    @property
    def name(self) -> str:
        """How messages call it."""
        return self._name

    def call(self, what: str, action: Callable[[], T]) -> T:
        """`action()`, with errors in our words."""
        try:
            return action()
        except S3Error as error:
            raise explain_s3(error, f"{self._name}{what}", self.endpoint.url) from error
        except NETWORK as error:
            # A broken connection holds half an answer: the next request needs a new one.
            self.s3.close()
            raise explain_network(error, f"{self._name}{what}", self.endpoint.url) from error

    def make_ready(self) -> None:
        """Make the bucket where it is missing, on a server that is the platform's own."""
        if self._makes_bucket and self.bucket not in self.call("", self.s3.buckets):
            self.call("", lambda: self.s3.create_bucket(self.bucket))

    def walk(self, prefix: str = "") -> Iterator[Entry]:
        """All objects whose keys start with `prefix`, page by page; folder marks are left out."""
        for page in self._pages(prefix, ""):
            for found in page.objects:
                if not _is_mark(found):
                    yield _entry(found)

    def level(self, prefix: str = "") -> Listing:
        """Objects and folders directly under `prefix`."""
        entries: list[Entry] = []
        folders: set[str] = set()
        for page in self._pages(prefix, "/"):
            entries += [_entry(found) for found in page.objects if not found.key.endswith("/")]
            folders.update(page.prefixes)
        return Listing(tuple(entries), tuple(sorted(folders)))

    def has_any(self, prefix: str) -> bool:
        """Whether a folder is there: objects, or its mark; without a prefix, the bucket."""
        page = self.call(prefix, lambda: self.s3.page(self.bucket, prefix, limit=1))
        return bool(page.objects) or prefix == ""

    def _pages(self, prefix: str, delimiter: str) -> Iterator[Page]:
        found = pages(partial(self.s3.page, self.bucket, prefix, delimiter), self.bucket, prefix)
        while (page := self.call(prefix, lambda: next(found, None))) is not None:
            yield page

    def stat(self, key: str) -> Entry:
        """One object."""
        self.check(key)
        return _entry(self.call(key, lambda: self.s3.head(self.bucket, key)))

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Bytes of an object."""
        self.check(key)
        if start == 0 and length is None:
            return self.get_small(key)[0]
        if length == 0:
            return b""
        return self.call(key, lambda: self._read_range(key, start, length))

    def _read_range(self, key: str, start: int, length: int | None) -> bytes:
        size = self.s3.head(self.bucket, key).size
        wanted = max(0, size - start) if length is None else max(0, min(length, size - start))
        if not wanted:
            return b""
        with self.s3.get(self.bucket, key, start, wanted) as reading:
            return reading.read()

    def get_small(self, key: str) -> tuple[bytes, Tag]:
        """A whole object in memory, and its tag."""
        return self.call(key, lambda: self._get_whole(key))

    def _get_whole(self, key: str) -> tuple[bytes, Tag]:
        with self.s3.get(self.bucket, key) as reading:
            return reading.read(), reading.etag

    def put_small(self, key: str, data: bytes, md5: bytes | None = None) -> Tag:
        """A whole object from memory; gives its tag. The server compares the MD5 of what came."""
        self.check(key)
        digest = md5 or hashlib.md5(data).digest()
        return self.call(key, lambda: self.s3.put(self.bucket, key, data, len(data), digest))

    def write(self, key: str, data: bytes) -> Entry:
        """Make or replace an object."""
        self.put_small(key, data)
        return self.stat(key)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete, a thousand a request."""
        left = iter(keys)
        while batch := list(islice(left, 1000)):
            for key in batch:
                self.check(key)
            if len(batch) == 1:
                self._delete_one(batch[0])
            else:
                self.call("", partial(self.s3.delete_many, self.bucket, batch))

    def _delete_one(self, key: str) -> None:
        try:
            self.call(key, lambda: self.s3.delete(self.bucket, key))
        except NotFound as error:
            logger.debug("nothing to delete: %s", error)

    def copy(self, key: str, to: str) -> Entry:
        """Copy inside the bucket, on the server."""
        return self.copy_from(self, key, to)

    def copy_from(self, other: "ObjectStore", key: str, to: str) -> Entry:
        """Copy from a bucket of the same server, on the server."""
        self.check(to)
        self.call(key, lambda: self.s3.copy(other.bucket, key, self.bucket, to))
        return self.stat(to)

    def make_folder(self, prefix: str) -> None:
        """Put the empty object that consoles show as a folder."""
        self.call(prefix, lambda: self.s3.put(self.bucket, prefix, b"", 0))

    def delete_folders(self, prefix: str) -> int:
        """Delete the marks of folders, and the folders that SeaweedFS keeps without one."""
        marks = list(self._marks(prefix))
        self.delete(marks)
        count = len(marks) + self._delete_shells(prefix)
        # rclone takes `a/` for `a`, which may be an object beside the folder.
        if prefix and not self._is_object(prefix.rstrip("/")):
            self._delete_one(prefix)
        return count

    def _is_object(self, key: str) -> bool:
        try:
            self.stat(key)
        except NotFound:
            return False
        return True

    def _delete_shells(self, prefix: str) -> int:
        """A folder whose objects are gone is still listed there; deleting one with objects does nothing."""
        count = 0
        for folder in self.level(prefix).folders:
            count += self._delete_shells(folder) + 1
            self._delete_one(folder)
        return count

    def empty_folders(self) -> Iterator[str]:
        """The marks of folders, also of those that have got objects meanwhile."""
        return self._marks("")

    def _marks(self, prefix: str) -> Iterator[str]:
        for page in self._pages(prefix, ""):
            yield from (found.key for found in page.objects if _is_mark(found))

    def check(self, key: str) -> None:
        """Refuse what no S3 server takes."""
        if not key or "\0" in key or len(key.encode("utf-8", "surrogateescape")) > _MOST_KEY_BYTES:
            raise BadInput(f"{self._name}: {key[:80]!r} cannot be a key: 1 to 1024 bytes, no NUL")
        try:
            key.encode("utf-8")
        except UnicodeEncodeError:
            raise BadInput(
                f"{self._name}: {key!r} is not UTF-8", hint="rename the file, then run it again"
            ) from None


def _is_mark(found: Found) -> bool:
    return found.key.endswith("/") and found.size == 0


def _entry(found: Found) -> Entry:
    return Entry(found.key, found.size, found.mtime, found.etag)
