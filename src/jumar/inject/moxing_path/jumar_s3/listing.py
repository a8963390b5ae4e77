"""Listings, page by page, from servers that support version 2 and those that support only version 1.

Asked for version 2, a server that only knows version 1 (as OBS documents it) answers in version 1,
without a continuation token: the next page starts at its `NextMarker`, or at the last key if it sends
none. A truncated listing without a next page is an error: missing keys would count as deleted."""

from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, NamedTuple, Optional, Set
from urllib.parse import unquote_plus

from .answers import Found, S3Error, bare, expect, xml_time

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


class More(NamedTuple):
    """Where the next page begins, in the terms of that version."""

    version: int
    text: str


class Page(NamedTuple):
    """One page of a listing; `more` leads to the next one."""

    objects: List[Found]
    prefixes: List[str]
    more: Optional[More]
    truncated: bool
    """Whether the server says that there is more."""

    @property
    def first(self) -> Optional[str]:
        """Its first key or prefix."""
        return min([found.key for found in self.objects[:1]] + self.prefixes[:1], default=None)


Ask = Callable[[Optional[More]], Page]


def pages(ask: Ask, bucket: str, prefix: str) -> Iterator[Page]:
    """All pages; S3Error if the server does not say how to continue, or repeats a page."""
    more: Optional[More] = None
    seen: Set[More] = set()
    before: Optional[str] = None
    while True:
        page = ask(more)
        if page.more in seen or (page.truncated and before is not None and page.first == before):
            raise _broken(bucket, prefix, "repeats the same page")
        yield page
        if not page.truncated:
            return
        if page.more is None:
            raise _broken(
                bucket, prefix, "is truncated, and the server does not say how to continue"
            )
        more, before = page.more, page.first
        seen.add(page.more)


def _broken(bucket: str, prefix: str, what: str) -> S3Error:
    where = f"{bucket}/{prefix}" if prefix else bucket
    return S3Error(200, "BadListing", f"the listing of {where} {what}")


def listing_query(prefix: str, delimiter: str, limit: int, more: More) -> Dict[str, str]:
    """The query for a page; the `more` of the first page has no text."""
    query = {"encoding-type": "url", "max-keys": str(limit)}
    if more.version == 2:
        query["list-type"] = "2"
    following = "marker" if more.version == 1 else "continuation-token"
    for name, value in (("prefix", prefix), ("delimiter", delimiter), (following, more.text)):
        if value:
            query[name] = value
    return query


def read_page(data: bytes, headers: Dict[str, str], asked: int, limit: int) -> Page:
    """A page of a listing in either version, whichever was requested."""
    root = expect(data, "ListBucketResult", headers)
    fields = {bare(element): element.text or "" for element in root}
    decode = unquote_plus if fields.get("EncodingType") == "url" else str
    objects = [_found(element, decode) for element in root if bare(element) == "Contents"]
    prefixes = [
        decode(child.text or "")
        for element in root
        if bare(element) == "CommonPrefixes"
        for child in element
    ]
    token, marker = fields.get("NextContinuationToken", ""), decode(fields.get("NextMarker", ""))
    told = fields.get("IsTruncated", "").strip().lower()
    truncated = told == "true"
    if not told:
        truncated = bool(token or marker) or len(objects) + len(prefixes) >= limit
    more: Optional[More] = None
    if truncated and asked == 2 and token:
        more = More(2, token)
    elif truncated and (marker or asked == 1 or "KeyCount" not in fields):
        text = marker or _last(objects, prefixes)
        more = More(1, text) if text else None
    return Page(objects, prefixes, more, truncated)


def _found(element: "Element", decode: Callable[[str], str]) -> Found:
    row = {bare(child): child.text or "" for child in element}
    return Found(
        decode(row.get("Key", "")),
        int(row.get("Size") or 0),
        xml_time(row.get("LastModified", "")),
        row.get("ETag", "").strip('"'),
    )


def _last(objects: List[Found], prefixes: List[str]) -> str:
    """The last name of a page in S3 order, which is that of UTF-8."""
    ends = [found.key for found in objects[-1:]] + prefixes[-1:]
    return max(ends, key=lambda text: text.encode("utf-8", "surrogatepass"), default="")
