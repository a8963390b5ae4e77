"""The tags of S3 servers as checksums.

The tag of an object that came in one piece is the MD5 of its bytes; of one that came in parts, the
MD5 of the parts' MD5s, a dash and their number. Other tags (of encrypted objects, of some servers)
say nothing about the bytes, and then sizes alone are compared."""

import hashlib
import re

_PLAIN = re.compile(r"[0-9a-f]{32}")
_PARTS = re.compile(r"([0-9a-f]{32})-(\d{1,5})")


def is_md5(etag: str) -> bool:
    """Whether the tag is the MD5 of all bytes."""
    return _PLAIN.fullmatch(etag) is not None


def tag_of_parts(digests: list[bytes]) -> str:
    """The tag of an object made of parts with these MD5s."""
    return f"{hashlib.md5(b''.join(digests)).hexdigest()}-{len(digests)}"


def parts_in_tag(etag: str) -> int | None:
    """How many parts the tag is made of; None when it is not of parts."""
    match = _PARTS.fullmatch(etag)
    return int(match[2]) if match else None


def same_parts(etag: str, digests: list[bytes]) -> bool | None:
    """Whether the parts are the object's; None when the tag cannot tell."""
    if parts_in_tag(etag) != len(digests):
        return None
    return tag_of_parts(digests) == etag
