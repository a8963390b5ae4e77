"""safetensors: a table of offsets comes first, and the last of them is where the file ends."""

import json
import os
import struct
from typing import Any, BinaryIO, Dict, List, cast

from .verdict import Torn, Unclear, exactly, opened, size_of

# The library's own limit.
_LONGEST_HEADER = 100_000_000
_MOST_OF_INDEX = 64 << 20


def check(file: BinaryIO) -> None:
    """As long as its table says."""
    (length,) = struct.unpack("<Q", exactly(file, 8))
    if length > min(_LONGEST_HEADER, size_of(file) - 8):
        raise Torn("its table is not whole")
    table = parsed(exactly(file, length))
    end = 8 + length + max((_end(name, value) for name, value in table.items()), default=0)
    if end != size_of(file):
        raise Torn(f"it has {size_of(file)} bytes instead of {end}")


def parsed(data: bytes) -> Dict[str, Any]:
    """A JSON object."""
    try:
        value: object = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Torn("its JSON is not whole") from error
    if not isinstance(value, dict):
        raise Torn("its JSON is not an object")
    return cast("Dict[str, Any]", value)


def read_json(path: str) -> Dict[str, Any]:
    """A JSON object in a file."""
    with opened(path) as file:
        if size_of(file) > _MOST_OF_INDEX:
            raise Unclear(f"{os.path.basename(path)} is too large to read")
        # Files of the kernel may have nothing to say yet.
        return parsed(file.read() or b"")


def _end(name: str, value: Any) -> int:
    if name == "__metadata__":
        return 0
    offsets: Any = (
        cast("Dict[str, Any]", value).get("data_offsets") if isinstance(value, dict) else 0
    )
    if isinstance(offsets, list):
        end = cast("List[Any]", offsets)[-1:]
        if end and isinstance(end[0], int):
            return end[0]
    raise Torn("its table is not one of offsets")
