"""Zip archives: torch.save since 1.6, Lightning, npz. The directory is written last, at the end, so an
archive whose directory ends exactly there and fits what lies before it was written to the end."""

import struct
from typing import BinaryIO, Dict, NamedTuple, Tuple

from .verdict import Torn, Unclear, exactly, size_of

MAGIC = b"PK\x03\x04"
_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_LONGEST_COMMENT = 1 << 16
_LONGEST_DIRECTORY = 256 << 20
_FULL_16, _FULL_32 = (1 << 16) - 1, (1 << 32) - 1


class Member(NamedTuple):
    """A file in the archive; `method` 0 is stored as it is."""

    at: int
    size: int
    method: int


def members(file: BinaryIO) -> Dict[str, Member]:
    """All members of a complete archive."""
    count, size, at = _directory(file)
    if size > _LONGEST_DIRECTORY:
        raise Unclear("its directory is too large to read")
    file.seek(at)
    data = exactly(file, size)
    found: Dict[str, Member] = {}
    position = 0
    for _ in range(count):
        if len(data) - position < _ENTRY.size:
            raise Torn("its directory is shorter than it says")
        name, member, position = _entry(data, position)
        if member.at + member.size > at:
            raise Torn(f"{name} ends behind the directory")
        found[name] = member
    if position != size:
        raise Torn("its directory is longer than it says")
    return found


def content(file: BinaryIO, member: Member, most_bytes: int) -> bytes:
    """The bytes of a stored member."""
    if member.method != 0 or member.size > most_bytes:
        raise Unclear("a member is compressed or too large to read")
    file.seek(member.at)
    header = _LOCAL.unpack(exactly(file, _LOCAL.size))
    if header[0] != MAGIC:
        raise Torn("a member does not begin where the directory says")
    file.seek(header[9] + header[10], 1)
    return exactly(file, member.size)


def _directory(file: BinaryIO) -> Tuple[int, int, int]:
    """How many entries it has, its size and where it begins."""
    total = size_of(file)
    tail_at = max(0, total - _LONGEST_COMMENT - _END.size)
    file.seek(tail_at)
    tail = file.read()
    place = tail.rfind(b"PK\x05\x06")
    while place >= 0:
        if len(tail) - place >= _END.size:
            fields = _END.unpack_from(tail, place)
            if place + _END.size + fields[7] == len(tail):
                return _checked(file, tail_at + place, (fields[4], fields[5], fields[6]))
        place = tail.rfind(b"PK\x05\x06", 0, place)
    raise Torn("it does not end with a directory")


def _checked(file: BinaryIO, end: int, said: Tuple[int, int, int]) -> Tuple[int, int, int]:
    count, size, at = said
    if at == _FULL_32 or size == _FULL_32 or count == _FULL_16:
        end, count, size, at = _large(file, end)
    elif at + size != end and end >= _LOCATOR.size:
        # Torch always writes the large form, also where the short one would do.
        end, count, size, at = _large(file, end)
    if at + size != end:
        raise Torn("its directory does not end where the archive does")
    return count, size, at


def _large(file: BinaryIO, end: int) -> Tuple[int, int, int, int]:
    if end < _LOCATOR.size + _END_64.size:
        raise Torn("its directory does not end where the archive does")
    file.seek(end - _LOCATOR.size)
    mark, _, at, _ = _LOCATOR.unpack(exactly(file, _LOCATOR.size))
    if mark != b"PK\x06\x07" or at + _END_64.size > end:
        raise Torn("its directory does not end where the archive does")
    file.seek(at)
    fields = _END_64.unpack(exactly(file, _END_64.size))
    if fields[0] != b"PK\x06\x06" or at + 12 + fields[1] != end - _LOCATOR.size:
        raise Torn("its directory does not end where the archive does")
    return at, fields[7], fields[8], fields[9]


def _entry(data: bytes, position: int) -> Tuple[str, Member, int]:
    fields = _ENTRY.unpack_from(data, position)
    if fields[0] != b"PK\x01\x02":
        raise Torn("its directory holds something else")
    name_at = position + _ENTRY.size
    extra_at = name_at + fields[10]
    after = extra_at + fields[11] + fields[12]
    name = data[name_at:extra_at].decode("utf-8", "replace")
    size, at = fields[8], fields[16]
    if size == _FULL_32 or at == _FULL_32:
        size, at = _large_sizes(data[extra_at : extra_at + fields[11]], fields[9], size, at)
    return name, Member(at, size, fields[4]), after


def _large_sizes(extra: bytes, plain: int, size: int, at: int) -> Tuple[int, int]:
    """The extra field holds, in this order, those of the three that did not fit."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, position)
        if kind == 1:
            values = extra[position + 4 : position + 4 + length]
            numbers = list(struct.unpack(f"<{len(values) // 8}Q", values[: len(values) // 8 * 8]))
            wanted = [value == _FULL_32 for value in (plain, size, at)]
            if len(numbers) < sum(wanted):
                break
            real = [numbers.pop(0) if is_wanted else None for is_wanted in wanted]
            return size if real[1] is None else real[1], at if real[2] is None else real[2]
        position += 4 + length
    raise Torn("an entry of its directory has no size")
