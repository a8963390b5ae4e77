"""The calls of an S3 server."""

import hashlib
import re
import sys
from base64 import b64decode, b64encode
from collections import deque
from typing import Deque, Dict, Generator, Iterable, Iterator, List, Optional, Tuple
from urllib.parse import quote

from .answers import (
    Answer,
    Begun,
    Found,
    Got,
    Page,
    Part,
    Reading,
    S3Error,
    bare,
    field,
    http_time,
    parse,
    read_page,
    told,
)
from .asking import Asking
from .sign import presigned_query
from .wire import Body, Connection

# XML has no way to write most of them, and takes a carriage return for a new line.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff]")


class S3(Asking):
    """Calls to one server."""

    # Calls on objects

    def head(self, bucket: str, key: str) -> Found:
        """Size, time and tag of one object."""
        with self.answer("HEAD", bucket, key) as answer:
            changed = http_time(answer.headers.get("last-modified"))
            return Found(key, answer.length, changed, answer.etag)

    def part_bytes(self, bucket: str, key: str) -> Optional[int]:
        """How large the first part was of an object that came in parts, where the server tells."""
        with self.answer("HEAD", bucket, key, query={"partNumber": "1"}) as answer:
            if answer.headers.get("x-amz-mp-parts-count") is None:
                return None
            return answer.length or None

    def crc32(self, bucket: str, key: str) -> Optional[bytes]:
        """The CRC-32 of all the object's bytes, where the server keeps it."""
        asked = {"x-amz-checksum-mode": "ENABLED"}
        with self.answer("HEAD", bucket, key, headers=asked) as answer:
            text = answer.headers.get("x-amz-checksum-crc32") or ""
        # Of an upload in parts it may be one over the parts' checksums: "AAAAAA==-7".
        return b64decode(text) if len(text) == 8 else None

    def get(self, bucket: str, key: str, start: int = 0, length: Optional[int] = None) -> "Reading":
        """The object's bytes, or a range of them; to be used in `with`."""
        headers: Dict[str, str] = {}
        if start or length is not None:
            end = "" if length is None else str(start + length - 1)
            headers["Range"] = f"bytes={start}-{end}"
        answer = self.answer("GET", bucket, key, headers=headers)
        # Some servers ignore the range and send it all; some obey and say 200 all the same.
        ignored = bool(headers) and answer.headers.get("content-range") is None
        return Reading(answer, skip=start if ignored else 0, length=length, whole=ignored)

    def get_many(self, bucket: str, keys: Iterable[str], width: int) -> Generator[Got, None, None]:
        """Small objects, in this order. One thread asks for `width` at a time, each over a connection
        of its own: as many threads would spend half of their time on each other."""
        free: List[Connection] = []
        asked: Deque[Tuple[str, Connection, bool]] = deque()
        try:
            for key in keys:
                host, path = self.place(bucket, key)
                connection = free.pop() if free else self.new_connection(host)
                headers = self.signed("GET", host, path, "", {}, None)
                asked.append((key, connection, _is_sent(connection, path, headers)))
                if len(asked) == width:
                    yield _take(asked, free)
            while asked:
                yield _take(asked, free)
        finally:
            for connection in (*free, *(connection for _, connection, _ in asked)):
                connection.close()

    def put(
        self,
        bucket: str,
        key: str,
        body: Body,
        length: int,
        headers: Optional[Dict[str, str]] = None,
    ) -> str:
        """Write an object in one request; gives its tag."""
        with self.answer("PUT", bucket, key, headers=headers, body=body, length=length) as answer:
            answer.drain()
            return answer.etag

    def copy(self, bucket: str, key: str, to_bucket: str, to_key: str) -> None:
        """Copy an object inside the server."""
        source = "/" + quote(f"{bucket}/{key}", safe="/-_.~")
        with self.answer("PUT", to_bucket, to_key, headers={"x-amz-copy-source": source}) as answer:
            # A copy that breaks late is told in the body of a good answer.
            root = parse(answer.text())
            if root is not None and bare(root) == "Error":
                raise told(answer.raw.status, root, answer.headers)

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object; it need not be there."""
        with self.answer("DELETE", bucket, key) as answer:
            answer.drain()

    def delete_many(self, bucket: str, keys: Iterable[str]) -> None:
        """Delete up to 1,000 objects in one request; those that XML cannot name, one by one."""
        names = list(keys)
        for key in filter(_CONTROL.search, names):
            self.delete(bucket, key)
        names = [key for key in names if not _CONTROL.search(key)]
        if not names:
            return
        rows = "".join(f"<Object><Key>{_escaped(key)}</Key></Object>" for key in names)
        body = (f"<Delete><Quiet>true</Quiet>{rows}</Delete>").encode()
        # The call insists on a checksum of its body.
        digest = b64encode(hashlib.md5(body).digest()).decode("ascii")
        with self.answer(
            "POST", bucket, query={"delete": ""}, headers={"Content-MD5": digest}, body=body
        ) as answer:
            root = parse(answer.text())
        for element in root if root is not None else ():
            if bare(element) == "Error":
                raise told(200, element, answer.headers)

    def page(
        self,
        bucket: str,
        prefix: str = "",
        delimiter: str = "",
        more: Optional[str] = None,
        limit: int = 1000,
    ) -> Page:
        """One page of the objects whose keys start with `prefix`."""
        query = {"list-type": "2", "encoding-type": "url", "max-keys": str(limit)}
        for name, value in (("prefix", prefix), ("delimiter", delimiter)):
            if value:
                query[name] = value
        if more:
            query["continuation-token"] = more
        with self.answer("GET", bucket, query=query) as answer:
            return read_page(answer.text())

    def walk(self, bucket: str, prefix: str = "") -> Iterator[Found]:
        """All objects whose keys start with `prefix`."""
        more: Optional[str] = None
        while True:
            page = self.page(bucket, prefix, more=more)
            yield from page.objects
            if page.more is None or page.more == more:
                return
            more = page.more

    # Uploads in parts

    def create_upload(self, bucket: str, key: str, crc32: bool = False) -> Begun:
        """Begin an upload in parts; with `crc32` the server is asked to compare checksums."""
        headers = {"x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "FULL_OBJECT"}
        with self.answer(
            "POST", bucket, key, query={"uploads": ""}, headers=headers if crc32 else None
        ) as answer:
            kept = all(answer.headers.get(name) == value for name, value in headers.items())
            return Begun(field(answer.text(), "UploadId"), crc32 and kept)

    def put_part(
        self,
        bucket: str,
        key: str,
        upload: str,
        number: int,
        body: Body,
        length: int,
        crc32: Optional[bytes] = None,
    ) -> str:
        """Send one part; gives its tag."""
        query = {"partNumber": str(number), "uploadId": upload}
        with self.answer(
            "PUT", bucket, key, query=query, headers=_checksum(crc32), body=body, length=length
        ) as answer:
            answer.drain()
            return answer.etag

    def parts(self, bucket: str, key: str, upload: str) -> List[Part]:
        """The parts that have arrived."""
        found: List[Part] = []
        marker = ""
        while True:
            query = {"uploadId": upload}
            if marker:
                query["part-number-marker"] = marker
            with self.answer("GET", bucket, key, query=query) as answer:
                root = parse(answer.text())
            fields: Dict[str, str] = {}
            for element in root if root is not None else ():
                if bare(element) == "Part":
                    part = {bare(child): child.text or "" for child in element}
                    number, size = int(part["PartNumber"]), int(part["Size"])
                    found.append(Part(number, size, part["ETag"].strip('"')))
                else:
                    fields[bare(element)] = element.text or ""
            following = fields.get("NextPartNumberMarker", "")
            if fields.get("IsTruncated") != "true" or following in ("", "0", marker):
                return found
            marker = following

    def complete_upload(
        self,
        bucket: str,
        key: str,
        upload: str,
        etags: Iterable[str],
        crc32: Optional[bytes] = None,
    ) -> str:
        """Make the object of its parts; gives its tag."""
        rows = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>&quot;{etag}&quot;</ETag></Part>"
            for number, etag in enumerate(etags, 1)
        )
        body = (f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>").encode()
        with self.answer(
            "POST", bucket, key, query={"uploadId": upload}, headers=_checksum(crc32), body=body
        ) as answer:
            text = answer.text()
        root = parse(text)
        if root is not None and bare(root) == "Error":
            raise told(answer.raw.status, root, answer.headers)
        return field(text, "ETag").strip('"')

    def abort_upload(self, bucket: str, key: str, upload: str) -> None:
        """Throw the parts away."""
        with self.answer("DELETE", bucket, key, query={"uploadId": upload}) as answer:
            answer.drain()

    # Calls on buckets

    def buckets(self) -> List[str]:
        """Names of the buckets that this key can list."""
        with self.answer("GET") as answer:
            root = parse(answer.text())
        if root is None:
            return []
        return [e.text or "" for e in root.iter() if bare(e) == "Name"]

    def create_bucket(self, bucket: str) -> None:
        """Make a bucket."""
        with self.answer("PUT", bucket) as answer:
            answer.drain()

    def policy(self, bucket: str) -> str:
        """The bucket's policy, a JSON text; empty when it has none."""
        try:
            with self.answer("GET", bucket, query={"policy": ""}) as answer:
                return answer.text().decode("utf-8")
        except S3Error as error:
            if error.code != "NoSuchBucketPolicy":
                raise
            return ""

    def delete_policy(self, bucket: str) -> None:
        """Take the bucket's policy away."""
        with self.answer("DELETE", bucket, query={"policy": ""}) as answer:
            answer.drain()

    def put_policy(self, bucket: str, policy: str) -> None:
        """Set the bucket's policy, a JSON text."""
        with self.answer(
            "PUT", bucket, query={"policy": ""}, body=policy.encode("utf-8")
        ) as answer:
            answer.drain()

    def presign(self, method: str, bucket: str, key: str, expires_s: int = 3600) -> str:
        """An address that works without a key until it expires."""
        host, path = self.place(bucket, key)
        query = presigned_query(self.endpoint, method, host, path, expires_s)
        return "{}://{}{}?{}".format("https" if self.secure else "http", host, path, query)


def _is_sent(connection: Connection, path: str, headers: Dict[str, str]) -> bool:
    try:
        connection.send("GET", path, headers)
    except OSError:
        return False
    return True


def _take(asked: Deque[Tuple[str, Connection, bool]], free: List[Connection]) -> Got:
    """The answer to the first that was asked for."""
    key, connection, is_sent = asked.popleft()
    free.append(connection)
    if not is_sent:
        return Got(key, None, "")
    try:
        with Answer(connection.answer("GET")) as answer:
            data = answer.raw.read(sys.maxsize) if answer.raw.status < 300 else None
            return Got(key, data, answer.etag)
    except OSError:
        return Got(key, None, "")


def _checksum(crc32: Optional[bytes]) -> Optional[Dict[str, str]]:
    return None if crc32 is None else {"x-amz-checksum-crc32": b64encode(crc32).decode("ascii")}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
