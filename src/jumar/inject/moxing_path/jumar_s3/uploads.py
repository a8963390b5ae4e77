"""Uploads in parts: the calls of an S3 server for them."""

from base64 import b64encode
from typing import TYPE_CHECKING, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple
from urllib.parse import quote, unquote_plus

from .answers import Begun, Part, S3Error, Tag, bare, expect, field, parse, told, xml_time
from .asking import Asking, content_md5
from .wire import Body

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


class UnfinishedUpload(NamedTuple):
    """An upload in parts that was begun and neither completed nor aborted; its parts take up space."""

    key: str
    upload_id: str
    begun_at: float
    """Seconds since 1970; 0 if the server does not say."""


class Uploads(Asking):
    """Calls for uploads in parts."""

    def create_upload(self, bucket: str, key: str, crc32: bool = False) -> Begun:
        """Start an upload in parts; with `crc32` the server is asked to check checksums."""
        headers = {"x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "FULL_OBJECT"}
        with self.answer(
            "POST", bucket, key, query={"uploads": ""}, headers=headers if crc32 else None
        ) as answer:
            kept = all(answer.headers.get(name) == value for name, value in headers.items())
            return Begun(field(answer.text(), "UploadId"), crc32 and kept, answer.encrypted)

    def put_part(
        self,
        bucket: str,
        key: str,
        upload: str,
        number: int,
        body: Body,
        length: int,
        crc32: Optional[bytes] = None,
        md5: Optional[bytes] = None,
    ) -> Tag:
        """Send one part; returns its tag. The server checks the checksums that it is given."""
        query = {"partNumber": str(number), "uploadId": upload}
        headers = {**_checksum(crc32), **content_md5(md5)}
        with self.answer(
            "PUT", bucket, key, query=query, headers=headers, body=body, length=length
        ) as answer:
            answer.drain()
            return answer.etag

    def parts(self, bucket: str, key: str, upload: str) -> List[Part]:
        """The parts that have arrived."""
        found: List[Part] = []
        marker = 0
        while True:
            query = {"uploadId": upload}
            if marker:
                query["part-number-marker"] = str(marker)
            with self.answer("GET", bucket, key, query=query) as answer:
                root = expect(answer.text(), "ListPartsResult", answer.headers)
            fields: Dict[str, str] = {}
            for element in root:
                if bare(element) == "Part":
                    part = {bare(child): child.text or "" for child in element}
                    number, size = int(part["PartNumber"]), int(part["Size"])
                    found.append(Part(number, size, part["ETag"].strip('"')))
                else:
                    fields[bare(element)] = element.text or ""
            if fields.get("IsTruncated") != "true":
                return found
            last = found[-1].number if found else 0
            following = int(fields.get("NextPartNumberMarker") or 0) or last
            if following <= marker:
                raise S3Error(
                    200, "BadListing", f"the list of parts of {bucket}/{key} does not end"
                )
            marker = following

    def complete_upload(
        self,
        bucket: str,
        key: str,
        upload: str,
        etags: Iterable[str],
        crc32: Optional[bytes] = None,
    ) -> Tag:
        """Complete the object from its parts; returns its tag."""
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
        return Tag(field(text, "ETag").strip('"'), answer.encrypted)

    def abort_upload(self, bucket: str, key: str, upload: str) -> None:
        """Discard the parts."""
        with self.answer("DELETE", bucket, key, query={"uploadId": upload}) as answer:
            answer.drain()

    def copy_part(
        self,
        source: Tuple[str, str],
        target: Tuple[str, str],
        upload: str,
        number: int,
        span: Tuple[int, int],
        etag: str,
    ) -> Tag:
        """Make a part of bytes of an object that the server has with this tag. Places are bucket and
        key, a span is a start and a length."""
        query = {"partNumber": str(number), "uploadId": upload}
        start, length = span
        headers = {
            **copy_source(*source),
            "x-amz-copy-source-range": f"bytes={start}-{start + length - 1}",
            "x-amz-copy-source-if-match": f'"{etag}"',
        }
        with self.answer("PUT", *target, query=query, headers=headers) as answer:
            # A copy that fails late is reported in the body of a successful answer.
            root = expect(answer.text(), "CopyPartResult", answer.headers)
        row = {bare(child): child.text or "" for child in root}
        return Tag(row.get("ETag", "").strip('"'), answer.encrypted)

    def unfinished_uploads(self, bucket: str, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """All uploads whose keys start with `prefix`, page by page."""
        marker: Dict[str, str] = {}
        while True:
            query = {"uploads": "", "encoding-type": "url", "prefix": prefix, **marker}
            if not prefix:
                del query["prefix"]
            with self.answer("GET", bucket, query=query) as answer:
                root = expect(answer.text(), "ListMultipartUploadsResult", answer.headers)
            fields = {bare(element): element.text or "" for element in root}
            decode = unquote_plus if fields.get("EncodingType") == "url" else str
            for element in root:
                if bare(element) == "Upload":
                    found = _unfinished(element, decode(_text(element, "Key")))
                    # Some servers ignore the prefix.
                    if found.key.startswith(prefix):
                        yield found
            if fields.get("IsTruncated", "").strip().lower() != "true":
                return
            following = {
                "key-marker": decode(fields.get("NextKeyMarker", "")),
                "upload-id-marker": fields.get("NextUploadIdMarker", ""),
            }
            following = {name: value for name, value in following.items() if value}
            if not following or following == marker:
                raise S3Error(
                    200, "BadListing", f"the list of unfinished uploads of {bucket} does not end"
                )
            marker = following


def _unfinished(element: "Element", key: str) -> UnfinishedUpload:
    return UnfinishedUpload(key, _text(element, "UploadId"), xml_time(_text(element, "Initiated")))


def _text(element: "Element", name: str) -> str:
    return next((child.text or "" for child in element if bare(child) == name), "")


def copy_source(bucket: str, key: str) -> Dict[str, str]:
    """The header that names the object to copy."""
    return {"x-amz-copy-source": "/" + quote(f"{bucket}/{key}", safe="/-_.~")}


def _checksum(crc32: Optional[bytes]) -> Dict[str, str]:
    return {} if crc32 is None else {"x-amz-checksum-crc32": b64encode(crc32).decode("ascii")}
