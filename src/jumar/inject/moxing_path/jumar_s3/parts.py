"""Uploads in parts: how large the parts are, and the tag of an object that is made of them."""

import hashlib
from typing import List, Tuple

MIB = 1 << 20
BIG_BYTES = 16 * MIB
"""Objects above this size are sent in parts."""
PART_BYTES = 8 * MIB
"""Small, because parts in flight when a client is killed are sent again; whole chunks of SeaweedFS."""
_MOST_PARTS = 10_000


def part_bytes(size: int) -> int:
    """The size of an object's parts: whole MiB, and large enough for at most 10,000 parts."""
    needed = -(-size // _MOST_PARTS)
    return max(PART_BYTES, -(-needed // MIB) * MIB)


def part_count(size: int) -> int:
    """How many parts an object has; they are numbered from 1."""
    return -(-size // part_bytes(size))


def part_range(size: int, number: int) -> Tuple[int, int]:
    """Where a part starts, and its length."""
    step = part_bytes(size)
    start = (number - 1) * step
    return start, min(step, size - start)


def tag_of_parts(digests: List[bytes]) -> str:
    """The tag of an object made of parts with these MD5s."""
    return f"{hashlib.md5(b''.join(digests)).hexdigest()}-{len(digests)}"
