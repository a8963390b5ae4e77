"""What S3 servers tell about an object's bytes.

The tag of an object that came in one piece is the MD5 of its bytes; of one that came in parts, the
MD5 of the parts' MD5s, a dash and their number. Other tags (of some servers, and of all objects that
the server has encrypted, however they look) say nothing about the bytes, and then sizes alone are
compared. Whether an object is encrypted is said with it, never in a listing. Newer servers keep a CRC-32 of all
bytes too, if the sender asks: it costs a sixth of an MD5, and the checksums of any ranges can be
joined."""

import hashlib
import re
import zlib
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Protocol

from jumar.inject.moxing_path.jumar_s3 import Tag

_PLAIN = re.compile(r"[0-9a-f]{32}")
_PARTS = re.compile(r"([0-9a-f]{32})-(\d{1,5})")


# The polynomial of CRC-32, lowest power in the highest bit.
_CRC32 = 0xEDB88320


class Digest(Protocol):
    """A checksum that grows."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take in some bytes."""
        ...

    def digest(self) -> bytes:
        """The checksum so far."""
        ...


def _quickest_crc32() -> Callable[[bytes | memoryview, int], int]:
    try:
        # Ten times as quick as zlib's own; it is not built for every machine.
        module: Any = import_module("isal.isal_zlib")
    except ImportError:
        return zlib.crc32
    return module.crc32


_crc32_of = _quickest_crc32()


class Crc32:
    """CRC-32 in the shape of hashlib's digests."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes | memoryview, /) -> None:
        """Take in some bytes."""
        self._value = _crc32_of(data, self._value)

    def digest(self) -> bytes:
        """Four bytes, the highest first, as S3 writes them."""
        return self._value.to_bytes(4, "big")


def joined_crc32(ranges: Iterable[tuple[bytes, int]]) -> bytes:
    """The CRC-32 of bytes from those of the ranges that make them up, each with its length."""
    whole = 0
    shift, shifted_bytes = 0, -1
    for digest, length in ranges:
        if length != shifted_bytes:
            shift, shifted_bytes = _power_of_x(8 * length), length
        whole = _product(shift, whole) ^ int.from_bytes(digest, "big")
    return whole.to_bytes(4, "big")


def _product(left: int, right: int) -> int:
    """Of two polynomials over GF(2), modulo the one of CRC-32."""
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
    """Whether the tag is the MD5 of all bytes, as far as the server has told."""
    return _PLAIN.fullmatch(etag) is not None and not _is_encrypted(etag)


def _is_encrypted(etag: str) -> bool:
    return isinstance(etag, Tag) and etag.encrypted


def names_content(etag: str) -> bool:
    """Whether two objects with this tag have the same bytes: tags of other forms may be of anything."""
    return is_md5(etag) or parts_in_tag(etag) is not None


def tag_of_parts(digests: list[bytes]) -> str:
    """The tag of an object made of parts with these MD5s."""
    return f"{hashlib.md5(b''.join(digests)).hexdigest()}-{len(digests)}"


def parts_in_tag(etag: str) -> int | None:
    """How many parts the tag is made of; None when it is not of parts."""
    match = _PARTS.fullmatch(etag)
    return int(match[2]) if match and not _is_encrypted(etag) else None


def same_parts(etag: str, digests: list[bytes]) -> bool | None:
    """Whether the parts are the object's; None when the tag cannot tell."""
    if parts_in_tag(etag) != len(digests):
        return None
    return tag_of_parts(digests) == etag
