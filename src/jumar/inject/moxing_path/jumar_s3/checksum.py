"""What S3 servers reveal about an object's bytes.

The tag of an object sent in one piece is the MD5 of its bytes; of one sent in parts, the MD5 of the
parts' MD5s, a dash and their number. Other tags (on some servers, and of all objects that the server
encrypts, whatever they look like) say nothing about the bytes; then only sizes are compared. Whether
an object is encrypted is sent with the object, never in a listing. Newer servers also keep a CRC-32
of all bytes, if the sender asks for it: it costs a sixth of an MD5, and the checksums of ranges can
be combined."""

import hashlib
import re
import zlib
from typing import Callable, Iterable, List, Optional, Tuple, Union

from .answers import Kept, Tag
from .parts import tag_of_parts

Bytes = Union[bytes, memoryview]

_PLAIN = re.compile(r"[0-9a-f]{32}")
_PARTS = re.compile(r"([0-9a-f]{32})-(\d{1,5})")


# The polynomial of CRC-32, lowest power in the highest bit.
_CRC32 = 0xEDB88320


crc32_of: Callable[[Bytes, int], int] = zlib.crc32
"""Those who have a faster one put it here."""


class Crc32:
    """CRC-32 with the interface of hashlib's digests."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: Bytes) -> None:
        """Add some bytes."""
        self._value = crc32_of(data, self._value)

    def digest(self) -> bytes:
        """Four bytes, big-endian, as S3 writes them."""
        return self._value.to_bytes(4, "big")


# The type of hashlib's digests has no public name before Python 3.13.
Digest = Union["hashlib._Hash", Crc32]  # pyright: ignore[reportPrivateUsage]
"""A running checksum."""


def joined_crc32(ranges: Iterable[Tuple[bytes, int]]) -> bytes:
    """The CRC-32 of the whole, from the CRC-32 and the length of each range."""
    whole = 0
    shift, shifted_bytes = 0, -1
    for digest, length in ranges:
        if length != shifted_bytes:
            shift, shifted_bytes = _power_of_x(8 * length), length
        whole = _product(shift, whole) ^ int.from_bytes(digest, "big")
    return whole.to_bytes(4, "big")


def _product(left: int, right: int) -> int:
    """The product of two polynomials over GF(2), modulo the polynomial of CRC-32."""
    product = 0
    for power in range(31, -1, -1):
        if left >> power & 1:
            product ^= right
        right = right >> 1 ^ (_CRC32 if right & 1 else 0)
    return product


def _power_of_x(exponent: int) -> int:
    """x to the power of `exponent`, modulo the polynomial."""
    result, square = 1 << 31, 1 << 30
    while exponent:
        if exponent & 1:
            result = _product(result, square)
        square = _product(square, square)
        exponent >>= 1
    return result


def is_md5(etag: str) -> bool:
    """Whether the tag is the MD5 of all bytes, as far as the server says."""
    return _PLAIN.fullmatch(etag) is not None and not _is_encrypted(etag)


def _is_encrypted(etag: str) -> bool:
    return isinstance(etag, Tag) and etag.encrypted


def names_content(etag: str) -> bool:
    """Whether two objects with this tag have the same bytes; other tags guarantee nothing."""
    return is_md5(etag) or parts_in_tag(etag) is not None


def parts_in_tag(etag: str) -> Optional[int]:
    """How many parts the tag is made of; None if the object was not sent in parts."""
    match = _PARTS.fullmatch(etag)
    return int(match[2]) if match and not _is_encrypted(etag) else None


def same_parts(etag: str, digests: List[bytes]) -> Optional[bool]:
    """Whether these are the object's parts; None if the tag cannot tell."""
    if parts_in_tag(etag) != len(digests):
        return None
    return tag_of_parts(digests) == etag


def is_wrong(etag: str, md5: str, ask: Callable[[], str]) -> bool:
    """Whether an object with this tag cannot have bytes with this MD5; tags that are no checksums pass.

    Not every answer says that the object is encrypted; the one to HEAD does: `ask` gives its tag."""
    if etag == md5 or not is_md5(etag):
        return False
    found = ask()
    return is_md5(found) and found != md5


def is_damaged(kept: Kept, ranges: Iterable[Tuple[bytes, int]], md5: Callable[[], str]) -> bool:
    """Whether bytes that came in ranges are not those the server keeps. Of each range the digest and its
    length: CRC-32, or MD5 of the object's own parts; `md5` is asked for that of all bytes."""
    if kept.crc32 is not None:
        return joined_crc32(ranges) != kept.crc32
    if is_md5(kept.etag):
        return md5() != kept.etag
    return same_parts(kept.etag, [digest for digest, _ in ranges]) is False
