"""The calls of an S3 server."""

import hashlib
import re
from base64 import b64decode
from typing import Dict, Iterable, List, Optional

from .answers import (
    Found,
    Kept,
    Reading,
    S3Error,
    Tag,
    bare,
    expect,
    http_time,
    told,
)
from .asking import content_md5
from .listing import More, Page, listing_query, read_page
from .sign import presigned_query
from .uploads import Uploads, copy_source
from .wire import Body

# XML cannot express most of them, and turns a carriage return into a new line.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff]")


# Answers of servers that do not support version 2 of listings and do not ignore the request for it.
_NOT_SPOKEN = ("NotImplemented", "InvalidArgument", "InvalidRequest")


class S3(Uploads):
    """Calls to one server."""

    _lists_version_1 = False
    """Whether the server turned out to support only version 1 of listings."""

    # Calls on objects

    def head(self, bucket: str, key: str) -> Found:
        """Size, time and tag of one object."""
        with self.answer("HEAD", bucket, key) as answer:
            changed = http_time(answer.headers.get("last-modified"))
            return Found(key, answer.length, changed, answer.etag)

    def part_bytes(self, bucket: str, key: str) -> Optional[int]:
        """The size of the first part of an object sent in parts, if the server reveals it."""
        try:
            with self.answer("HEAD", bucket, key, query={"partNumber": "1"}) as answer:
                if answer.headers.get("x-amz-mp-parts-count") is None:
                    return None
                return answer.length or None
        except S3Error as error:
            # Some servers do not know the question.
            if error.status not in (400, 501):
                raise
            return None

    def kept(self, bucket: str, key: str) -> Kept:
        """What the server knows about the object's bytes."""
        asked = {"x-amz-checksum-mode": "ENABLED"}
        with self.answer("HEAD", bucket, key, headers=asked) as answer:
            text = answer.headers.get("x-amz-checksum-crc32") or ""
            # For an upload in parts it may be a checksum of checksums: "AAAAAA==-7".
            crc32 = b64decode(text) if len(text) == 8 else None
            return Kept(answer.etag, answer.length, crc32)

    def get(self, bucket: str, key: str, start: int = 0, length: Optional[int] = None) -> "Reading":
        """The object's bytes, or a range of them; to be used in `with`."""
        headers: Dict[str, str] = {}
        if start or length is not None:
            end = "" if length is None else str(start + length - 1)
            headers["Range"] = f"bytes={start}-{end}"
        answer = self.answer("GET", bucket, key, headers=headers)
        # Some servers ignore the range and send everything; some obey it but still answer 200.
        ignored = bool(headers) and answer.headers.get("content-range") is None
        return Reading(answer, skip=start if ignored else 0, length=length, whole=ignored)

    def put(
        self, bucket: str, key: str, body: Body, length: int, md5: Optional[bytes] = None
    ) -> Tag:
        """Write an object in one request; returns its tag. With `md5` the server checks the bytes."""
        with self.answer(
            "PUT", bucket, key, headers=content_md5(md5), body=body, length=length
        ) as answer:
            answer.drain()
            return answer.etag

    def copy(self, bucket: str, key: str, to_bucket: str, to_key: str) -> None:
        """Copy an object inside the server."""
        headers = copy_source(bucket, key)
        with self.answer("PUT", to_bucket, to_key, headers=headers) as answer:
            # A copy that fails late is reported in the body of a successful answer.
            expect(answer.text(), "CopyObjectResult", answer.headers)

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object; it need not exist."""
        with self.answer("DELETE", bucket, key) as answer:
            answer.drain()

    def delete_many(self, bucket: str, keys: Iterable[str]) -> None:
        """Delete up to 1,000 objects in one request; those that XML cannot express, one by one."""
        names = list(keys)
        for key in filter(_CONTROL.search, names):
            self.delete(bucket, key)
        names = [key for key in names if not _CONTROL.search(key)]
        if not names:
            return
        rows = "".join(f"<Object><Key>{_escaped(key)}</Key></Object>" for key in names)
        body = (f"<Delete><Quiet>true</Quiet>{rows}</Delete>").encode()
        # This call requires a checksum of its body.
        headers = content_md5(hashlib.md5(body).digest())
        with self.answer(
            "POST", bucket, query={"delete": ""}, headers=headers, body=body
        ) as answer:
            root = expect(answer.text(), "DeleteResult", answer.headers)
        for element in root:
            if bare(element) == "Error":
                raise told(200, element, answer.headers)

    def page(
        self,
        bucket: str,
        prefix: str = "",
        delimiter: str = "",
        more: Optional[More] = None,
        limit: int = 1000,
    ) -> Page:
        """One page of the objects whose keys start with `prefix`; `pages` gives them all."""
        start = more or More(1 if self._lists_version_1 else 2, "")
        try:
            page = self._page(bucket, prefix, delimiter, limit, start)
        except S3Error as error:
            if start != More(2, "") or error.code not in _NOT_SPOKEN:
                raise
            page = self._page(bucket, prefix, delimiter, limit, More(1, ""))
            self._lists_version_1 = True
        if page.more is not None and page.more.version == 1:
            self._lists_version_1 = True
        return page

    def _page(self, bucket: str, prefix: str, delimiter: str, limit: int, more: More) -> Page:
        query = listing_query(prefix, delimiter, limit, more)
        with self.answer("GET", bucket, query=query) as answer:
            return read_page(answer.text(), answer.headers, more.version, limit)

    # Calls on buckets

    def buckets(self) -> List[str]:
        """Names of the buckets that this key can list."""
        with self.answer("GET") as answer:
            root = expect(answer.text(), "ListAllMyBucketsResult", answer.headers)
        return [e.text or "" for e in root.iter() if bare(e) == "Name"]

    def create_bucket(self, bucket: str) -> None:
        """Create a bucket."""
        with self.answer("PUT", bucket) as answer:
            answer.drain()

    def policy(self, bucket: str) -> str:
        """The bucket's policy as JSON text; empty if it has none."""
        try:
            with self.answer("GET", bucket, query={"policy": ""}) as answer:
                return answer.text().decode("utf-8")
        except S3Error as error:
            if error.code != "NoSuchBucketPolicy":
                raise
            return ""

    def delete_policy(self, bucket: str) -> None:
        """Delete the bucket's policy."""
        with self.answer("DELETE", bucket, query={"policy": ""}) as answer:
            answer.drain()

    def put_policy(self, bucket: str, policy: str) -> None:
        """Set the bucket's policy, as JSON text."""
        with self.answer(
            "PUT", bucket, query={"policy": ""}, body=policy.encode("utf-8")
        ) as answer:
            answer.drain()

    def presign(self, method: str, bucket: str, key: str, expires_s: int = 3600) -> str:
        """A URL that works without a key until it expires."""
        host, path = self.place(bucket, key)
        query = presigned_query(self.endpoint, method, host, path, expires_s)
        return "{}://{}{}?{}".format("https" if self.secure else "http", host, path, query)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
