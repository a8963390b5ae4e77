"""Event files as TensorBoard's writers make them, byte by byte."""

import struct

from jumar.track.crc32c import masked


def varint(number: int) -> bytes:
    """As in protobuf."""
    made = b""
    while number > 127:
        made += bytes([number & 127 | 128])
        number >>= 7
    return made + bytes([number])


def inside(number: int, content: bytes) -> bytes:
    """A field that has a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def record(message: bytes) -> bytes:
    """With its length and both checksums."""
    head = struct.pack("<Q", len(message))
    return head + struct.pack("<I", masked(head)) + message + struct.pack("<I", masked(message))


def simple(tag: str, value: float) -> bytes:
    """A scalar as torch and tensorboardX write it."""
    return inside(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def tensor(tag: str, value: float, kind: str = "f") -> bytes:
    """A scalar as TensorFlow 2 writes it."""
    number = {"f": 1, "d": 2}[kind]
    content = bytes([8, number]) + inside(2, b"") + inside(4, struct.pack(f"<{kind}", value))
    return (
        inside(1, tag.encode()) + inside(8, content) + inside(9, inside(1, inside(1, b"scalars")))
    )


def event(time: float, step: int, *values: bytes) -> bytes:
    """A message with values."""
    counted = b"\x10" + varint(step) if step else b""
    summary = inside(5, b"".join(inside(1, value) for value in values))
    return b"\x09" + struct.pack("<d", time) + counted + summary


def version() -> bytes:
    """What every file begins with."""
    return record(b"\x09" + struct.pack("<d", 1.0) + inside(3, b"brain.Event:2"))
