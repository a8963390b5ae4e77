"""TensorBoard's event files to curves, as they grow.

A file is a row of records: length, its checksum, a message of protobuf, its checksum. Records that carry one
number of one name differ only in time, step and number: what is around these is looked up, and everything
else is parsed. Anybody can write such a file: what is not understood is left out."""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from jumar.track.crc32c import MARK, masked, sound
from jumar.track.reading import FileReader
from jumar.track.series import Series

_HEAD = struct.Struct("<QI")
_MOST_SCALAR = 1024
"""Longer records hold images, histograms or texts."""
_MOST_KNOWN = 4096
_MOST_NAME = 200
_FLOAT32, _FLOAT64 = struct.Struct("<f"), struct.Struct("<d")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# The numbers of fields: of `Event`, `Summary`, `Summary.Value`, `TensorProto`, `TensorShapeProto`.
_TIME, _STEP, _SUMMARY = 1, 2, 5
_VALUE = 1
_TAG, _SIMPLE, _TENSOR = 1, 2, 8
_TYPE, _SHAPE, _CONTENT, _FLOATS, _DOUBLES = 1, 2, 4, 5, 6
_KINDS = {1: _FLOAT32, 2: _FLOAT64, 3: struct.Struct("<i"), 9: struct.Struct("<q")}
"""By the number of the type in `DataType`."""
Field = tuple[int, int, int, int]
"""Number, wire type, where its value begins and ends."""


class _NotThere(Exception):
    """The message is none, or has no number."""


@dataclass(slots=True)
class _Pending:
    """What was read of one curve since the last look."""

    series: Series
    x: list[float] = field(default_factory=list[float])
    y: list[float] = field(default_factory=list[float])
    times: list[float] = field(default_factory=list[float])
    records: list[bytes] = field(default_factory=list[bytes])
    """Whose step is in `x`; number and time are taken from all of them at once."""

    def settle(self) -> None:
        """Take them."""
        if self.records:
            kind = f"<{len(self.records)}"
            self.y += struct.unpack(f"{kind}f", b"".join([one[-8:-4] for one in self.records]))
            self.times += struct.unpack(f"{kind}d", b"".join([one[1:9] for one in self.records]))
            self.records = []

    def add(self, step: int, value: float, time: float) -> None:
        """One more."""
        self.settle()
        self.x.append(float(step))
        self.y.append(value)
        self.times.append(time)

    def flush(self) -> None:
        """All to the curve."""
        self.settle()
        if self.x:
            self.series.extend(self.x, self.y, self.times)
            self.x, self.y, self.times = [], [], []


@dataclass(frozen=True, slots=True)
class _Shape:
    """Records that look alike."""

    pending: _Pending
    kind: struct.Struct
    after: bytes
    """What comes after the number."""


@dataclass(frozen=True, slots=True)
class _Scalar:
    """A number in a message."""

    name: str
    kind: struct.Struct
    place: int


class EventReader(FileReader):
    """The curves of one event file. What is torn at its end is read when it is whole."""

    def __init__(self) -> None:
        super().__init__()
        self._skip = 0
        self._lengths: dict[bytes, int] = {}
        self._pending: dict[str, _Pending] = {}
        self._plain: dict[bytes, _Pending] = {}
        """Curves whose number is a float at the end of the message, by all that is between step and number."""
        self._shapes: dict[bytes, _Shape] = {}
        """The others."""
        self._ends: list[int] = []
        """How far from the end of a message their numbers begin."""

    def feed(self, block: bytes) -> None:
        """Bytes from `offset` on; goes on behind the last whole record."""
        place = min(self._skip, len(block))
        self._skip -= place
        records: list[bytes] = []
        while True:
            start = place + _HEAD.size
            head = block[place:start]
            length = self._lengths.get(head)
            if length is None:
                length = self._length(head)
                if length is None:
                    break
            end = start + length + MARK
            if length > _MOST_SCALAR:
                place = min(end, len(block))
                self._skip = end - place
            elif end > len(block):
                break
            else:
                records.append(block[start:end])
                place = end
        self.offset += place
        self._take(sound(records))
        for pending in self._pending.values():
            pending.flush()

    def _length(self, head: bytes) -> int | None:
        """Of the record that begins so; None where it is torn, or none."""
        if len(head) < _HEAD.size:
            return None
        length, mark = _HEAD.unpack(head)
        if masked(head[:8]) != mark:
            return None
        if len(self._lengths) < _MOST_KNOWN:
            self._lengths[head] = length
        return length

    def _take(self, records: list[bytes]) -> None:
        plain = self._plain.get
        for record in records:
            # Time, then step, as everybody writes them.
            if len(record) < 24 or record[0] != 0x09 or record[9] != 0x10:
                self._parse(record, 0)
                continue
            step, begin = record[10], 11
            if step > 127:
                step, begin = step - 128 + (record[11] << 7), 12
                if step > 0x3FFF:
                    step, begin = _short_varint(record, 10)
            pending = plain(record[begin:-8])
            if pending is not None:
                pending.x.append(step)
                pending.records.append(record)
            elif not self._is_known(record, begin, step):
                self._parse(record, begin)

    def _is_known(self, record: bytes, begin: int, step: int) -> bool:
        size = len(record) - MARK
        for end in self._ends:
            place = size - end
            shape = self._shapes.get(record[begin:place])
            if shape is not None and record[place + shape.kind.size : size] == shape.after:
                value = shape.kind.unpack_from(record, place)[0]
                shape.pending.add(step, value, _FLOAT64.unpack_from(record, 1)[0])
                return True
        return False

    def _parse(self, record: bytes, begin: int) -> None:
        """Any message. `begin`: where its time and step end, if those come first."""
        size = len(record) - MARK
        try:
            time, step, scalars = _event(record, size)
        except (_NotThere, IndexError, struct.error):
            return
        for scalar in scalars:
            pending = self._pending_of(scalar.name)
            if pending is not None:
                pending.add(step, scalar.kind.unpack_from(record, scalar.place)[0], time)
                if begin and len(scalars) == 1:
                    self._learn(
                        record[begin : scalar.place], record[scalar.place : size], scalar, pending
                    )

    def _learn(self, before: bytes, rest: bytes, scalar: _Scalar, pending: _Pending) -> None:
        """`before` and `rest`: what is before the number, and what is from it on."""
        if len(self._shapes) + len(self._plain) >= _MOST_KNOWN:
            return
        if scalar.kind is _FLOAT32 and len(rest) == _FLOAT32.size:
            self._plain[before] = pending
        elif len(rest) in self._ends or len(self._ends) < 8:
            self._shapes[before] = _Shape(pending, scalar.kind, rest[scalar.kind.size :])
            self._ends = sorted({*self._ends, len(rest)})

    def _pending_of(self, name: str) -> _Pending | None:
        pending = self._pending.get(name)
        if pending is None:
            series = self.curves.of(name, "step")
            pending = None if series is None else self._pending.setdefault(name, _Pending(series))
        return pending


def _event(record: bytes, size: int) -> tuple[float, int, list[_Scalar]]:
    """Time, step and numbers of an `Event`."""
    time, step, found = math.nan, 0, list[_Scalar]()
    for number, wire, start, end in _fields(record, 0, size):
        if (number, wire) == (_TIME, _FIXED64):
            time = _FLOAT64.unpack_from(record, start)[0]
        elif (number, wire) == (_STEP, _VARINT):
            step, _ = _varint(record, start, end)
        elif (number, wire) == (_SUMMARY, _BYTES):
            for inner in _fields(record, start, end):
                scalar = _scalar(record, inner) if inner[:2] == (_VALUE, _BYTES) else None
                if scalar is not None:
                    found.append(scalar)
    # Steps are signed; nobody counts to the half of what 64 bits hold.
    return time, step if step < 1 << 63 else step - (1 << 64), found


def _scalar(record: bytes, value: Field) -> _Scalar | None:
    name, number = "", None
    for field_number, wire, start, end in _fields(record, value[2], value[3]):
        if (field_number, wire) == (_TAG, _BYTES):
            name = record[start:end].decode("utf-8", "replace")[:_MOST_NAME]
        elif (field_number, wire) == (_SIMPLE, _FIXED32):
            number = (_FLOAT32, start)
        elif (field_number, wire) == (_TENSOR, _BYTES):
            number = _only_one(record, start, end)
    return _Scalar(name, *number) if name and number is not None else None


def _only_one(record: bytes, start: int, end: int) -> tuple[struct.Struct, int] | None:
    """The number of a tensor that has only one."""
    kind, place = None, None
    for number, wire, first, last in _fields(record, start, end):
        if (number, wire) == (_TYPE, _VARINT):
            kind = _KINDS.get(_varint(record, first, last)[0])
        elif number == _SHAPE and last > first:
            # A scalar's shape is empty; histograms have one.
            return None
        elif number in (_CONTENT, _FLOATS, _DOUBLES):
            place = (first, last)
    if kind is None or place is None or place[1] - place[0] != kind.size:
        return None
    return kind, place[0]


def _fields(record: bytes, start: int, end: int) -> Iterator[Field]:
    while start < end:
        key, start = _varint(record, start, end)
        number, wire, begin = key >> 3, key & 7, start
        if wire == _BYTES:
            length, begin = _varint(record, start, end)
            start = begin + length
        elif wire == _VARINT:
            _, start = _varint(record, start, end)
        elif wire in (_FIXED64, _FIXED32):
            start += 8 if wire == _FIXED64 else 4
        else:
            raise _NotThere
        if start > end:
            raise _NotThere
        yield number, wire, begin, start


def _short_varint(record: bytes, place: int) -> tuple[int, int]:
    """A number of two to five bytes, and what comes after it; of a longer one, something wrong that no
    shape fits."""
    value = shift = 0
    for byte in record[place : place + 5]:
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            break
    return value, place


def _varint(record: bytes, place: int, end: int) -> tuple[int, int]:
    """A number, and what comes after it."""
    value = shift = 0
    while place < end and shift < 64:
        byte = record[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
    raise _NotThere
