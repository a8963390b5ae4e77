"""TFRecord files: records are kept as they are, with checksums. Labels come from the Examples."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from jumar.errors import BadInput
from jumar.store.mini.tree import BAD_GZIP, Tree

_ENDINGS = re.compile(r"\.(tfrecords?|tfrec|records?)\b|-\d{5}-of-\d{5}$", re.IGNORECASE)
# The first one that an Example has is used.
_LABELS = (
    "image/class/label",
    "image/object/class/label",
    "label",
    "labels",
    "class",
    "image/class/text",
    "image/object/class/text",
)
_CRC32C = 0x82F63B78
_MOST_RECORD_BYTES = 1 << 31


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class TFRecord:
    """One file, plain or gzip."""

    tree: Tree
    name: str
    kind = "tfrecord"

    @property
    def names(self) -> frozenset[str]:
        """The file alone."""
        return frozenset({self.name})

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        try:
            with self.tree.open_unpacked(self.name) as file:
                yield from read_records(file)
        except BAD_GZIP as error:
            raise BadInput(f"incomplete or damaged gzip: {error}") from error

    def labels(self) -> Iterator[frozenset[str]]:
        """The labels in the Examples."""
        return (labels_of(payload) for _, payload in self._records())

    def cut(self, rows: list[int]) -> dict[str, bytes]:
        """These records, with their checksums."""
        wanted = set(rows)
        kept = b"".join(data for at, (data, _) in enumerate(self._records()) if at in wanted)
        return {self.name: self.tree.packed_like(self.name, kept)}


def open_tfrecord(tree: Tree, name: str, _left: set[str]) -> TFRecord | None:
    """A TFRecord, by its name and first bytes."""
    if _ENDINGS.search(name) and (tree.is_gzip(name) or is_tfrecord(tree.head(name, 12))):
        return TFRecord(tree, name)
    return None


def read_records(file: _Readable) -> Iterator[tuple[bytes, bytes]]:
    """Each record: all its bytes, and its payload."""
    while head := file.read(12):
        if len(head) < 12:
            raise BadInput("the TFRecord file ends inside a record")
        length, mark = struct.unpack("<QI", head)
        if _masked_crc32c(head[:8]) != mark or length > _MOST_RECORD_BYTES:
            raise BadInput("not a TFRecord file, or damaged: the checksum of a length is wrong")
        rest = file.read(length + 4)
        if len(rest) < length + 4:
            raise BadInput("the TFRecord file ends inside a record")
        yield head + rest, rest[:length]


def is_tfrecord(head: bytes) -> bool:
    """Whether a file that begins with these twelve bytes is a TFRecord."""
    return len(head) == 12 and _masked_crc32c(head[:8]) == struct.unpack("<I", head[8:])[0]


def _masked_crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_CRC32C if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def labels_of(payload: bytes) -> frozenset[str]:
    """The values of the feature that holds the class; empty if there is none."""
    try:
        features = _features(payload)
    except (IndexError, ValueError):
        return frozenset()
    found = next((features[name] for name in _LABELS if name in features), None)
    return frozenset() if found is None else frozenset(found)


def _features(payload: bytes) -> dict[str, list[str]]:
    """The features that may be labels, by name."""
    found: dict[str, list[str]] = {}
    for number, features in proto_fields(payload):
        if number != 1 or not isinstance(features, bytes):
            continue
        for _, entry in proto_fields(features):
            if isinstance(entry, bytes):
                parts = dict(proto_fields(entry))
                name, value = parts.get(1), parts.get(2)
                if isinstance(name, bytes) and isinstance(value, bytes):
                    text = name.decode("utf-8", "replace")
                    if text in _LABELS:
                        found[text] = _values(value)
    return found


def _values(feature: bytes) -> list[str]:
    """The list in a Feature: of bytes (1) or of whole numbers (3, packed or not)."""
    values: list[str] = []
    for kind, items in proto_fields(feature):
        if not isinstance(items, bytes):
            continue
        for _, item in proto_fields(items):
            if kind == 1 and isinstance(item, bytes):
                values.append(item.decode("utf-8", "replace"))
            elif kind == 3 and isinstance(item, int):
                values.append(str(item))
            elif kind == 3 and isinstance(item, bytes):
                at = 0
                while at < len(item):
                    number, at = _varint(item, at)
                    values.append(str(number))
    return values


def proto_fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Field numbers and values of a protobuf message; fixed-width values as bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        length = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            length, at = _varint(message, at)
        if length is None or at + length > len(message):
            raise ValueError("not a protobuf message")
        yield tag >> 3, message[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("not a protobuf number")
