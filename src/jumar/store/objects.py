"""A bucket on an S3 server (such as OBS) as a store.

It uses our own small client instead of obstore, which has no resumable uploads, fails a whole
listing because of one key such as `a//b`, alters keys with `%` or `#`, refuses servers that answer a
range request with the whole object, and is slower for small objects."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from jumar.errors import BadInput, NotFound
from jumar.inject.moxing_path.jumar_s3 import (
    S3,
    Crew,
    Endpoint,
    Found,
    More,
    Page,
    Patience,
    S3Error,
    Tag,
    copy_inside,
    pages,
)
from jumar.store.base import Entry, Listing
from jumar.store.errors import NETWORK, StoreAway, explain_network, explain_s3, patiently
from jumar.store.parallel import one_ahead

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
                str(error), hint="for example https://obs.cn-north-4.myhuaweicloud.com"
            ) from error
        self.endpoint = endpoint
        self.bucket = bucket
        self._makes_bucket = makes_bucket
        self._name = name

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self._name

    def call(self, what: str, action: Callable[[], T]) -> T:
        """`action()`, with its errors as ours."""
        try:
            return action()
        except S3Error as error:
            raise explain_s3(error, f"{self._name}{what}", self.endpoint.url) from error
        except NETWORK as error:
            # A broken connection may hold half an answer: the next request needs a new one.
            self.s3.close()
            raise explain_network(error, f"{self._name}{what}", self.endpoint.url) from error

    def check_answered(self, key: str, etag: str) -> None:
        """Raise StoreAway if the answer is not from an S3 server: any server may answer 200, but only one
        that stores objects gives them tags."""
        if not etag:
            raise StoreAway(
                f"{self.endpoint.url} answered for {self._name}{key} without a tag, so it is not an S3 server",
                hint="is another program using the server's port?",
            )

    def make_ready(self) -> None:
        """Create the bucket if it is missing and the server is the platform's own."""
        if self._makes_bucket:
            self.create()

    def create(self) -> None:
        """Create the bucket unless it exists."""
        if self.bucket not in self.call("", self.s3.buckets):
            self.call("", lambda: self.s3.create_bucket(self.bucket))

    def walk(self, prefix: str = "", patience: Patience | None = None) -> Iterator[Entry]:
        """All objects whose keys start with `prefix`, page by page, without folder markers. With
        `patience` each page is asked for again while the server is away."""
        for page in one_ahead(self._pages(prefix, "", patience)):
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

    def has_objects(self, prefix: str) -> bool:
        """Whether there is any below a prefix, other than folder markers."""
        return any(
            not _is_mark(found) for page in self._pages(prefix, "") for found in page.objects
        )

    def has_folder(self, prefix: str = "") -> bool:
        """Whether a folder exists, as objects or as a marker; without a prefix, the bucket."""
        page = self.call(prefix, lambda: self.s3.page(self.bucket, prefix, limit=1))
        return bool(page.objects) or prefix == ""

    def _pages(
        self, prefix: str, delimiter: str, patience: Patience | None = None
    ) -> Iterator[Page]:
        def ask(more: More | None) -> Page:
            asking = partial(self.s3.page, self.bucket, prefix, delimiter, more)
            calling = partial(self.call, prefix, asking)
            return calling() if patience is None else patiently(calling, patience)

        found = pages(ask, self.bucket, prefix)
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
        """A whole object, and its tag."""
        return self.call(key, lambda: self._get_whole(key))

    def _get_whole(self, key: str) -> tuple[bytes, Tag]:
        with self.s3.get(self.bucket, key) as reading:
            return reading.read(), reading.etag

    def put_small(self, key: str, data: bytes, md5: bytes | None = None) -> Tag:
        """Write a whole object from memory; returns its tag. The server checks the MD5."""
        self.check(key)
        digest = md5 or hashlib.md5(data).digest()
        return self.call(key, lambda: self.s3.put(self.bucket, key, data, len(data), digest))

    def write(self, key: str, data: bytes) -> Entry:
        """Create or replace an object."""
        self.put_small(key, data)
        return self.stat(key)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete these keys, a thousand per request."""
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
        self.copy_from(self, self.stat(key), to, Crew(), partial(self.call, key))
        return self.stat(to)

    def copy_from(
        self, other: "ObjectStore", entry: Entry, to: str, crew: Crew, ask: Callable[..., Any]
    ) -> None:
        """Copy from a bucket of the same server, on the server; `ask` makes each request."""
        self.check(to)
        source, target = (other.bucket, entry.key), (self.bucket, to)
        copy_inside(self.s3, source, target, entry.size, entry.etag, crew, ask)

    def make_folder(self, prefix: str) -> None:
        """Create the empty object that consoles show as a folder."""
        self.call(prefix, lambda: self.s3.put(self.bucket, prefix, b"", 0))

    def delete_folders(self, prefix: str) -> int:
        """Delete folder markers, and the folders that SeaweedFS keeps without one."""
        marks = list(self._marks(prefix))
        self.delete(marks)
        count = len(marks) + self._delete_shells(prefix)
        # rclone treats `a/` as `a`, which may be an object beside the folder.
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
        """SeaweedFS still lists folders whose objects are gone; deleting one that has objects is a no-op."""
        count = 0
        for folder in self.level(prefix).folders:
            count += self._delete_shells(folder) + 1
            self._delete_one(folder)
        return count

    def empty_folders(self) -> Iterator[str]:
        """The folder markers, including those of folders that now have objects."""
        return self._marks("")

    def _marks(self, prefix: str) -> Iterator[str]:
        for page in self._pages(prefix, ""):
            yield from (found.key for found in page.objects if _is_mark(found))

    def check(self, key: str) -> None:
        """Refuse keys that no S3 server accepts."""
        if not key or "\0" in key or len(key.encode("utf-8", "surrogateescape")) > _MOST_KEY_BYTES:
            raise BadInput(f"{self._name}: {key[:80]!r} cannot be a key: 1 to 1024 bytes, no NUL")
        try:
            key.encode("utf-8")
        except UnicodeEncodeError:
            raise BadInput(
                f"{self._name}: {key!r} is not valid UTF-8",
                hint="rename the file, then run it again",
            ) from None


def _is_mark(found: Found) -> bool:
    return found.key.endswith("/") and found.size == 0


def _entry(found: Found) -> Entry:
    return Entry(found.key, found.size, found.mtime, found.etag)
