"""What passes between a command beside a job and whoever asked for it: frames over any stream of bytes.

A frame is one letter, its length and its content. Input is only sent as far as it has been taken, so a
signal is never stuck behind input that nobody reads."""

import json
import struct
from typing import Any, Dict, Iterator, Mapping, Tuple, cast

_HEAD = struct.Struct("!cI")
MOST_BYTES = 1 << 16
"""Of the content of one frame."""
INPUT_WINDOW = 1 << 18
"""How much input may be on its way."""
ALIVE_EVERY_S = 15.0

# From whoever asks.
REQUEST, INPUT, INPUT_END, WINDOW, SIGNAL = b"r", b"i", b"e", b"w", b"s"
# From the command.
OUTPUT, ERRORS, TAKEN, EXIT, REFUSED = b"o", b"x", b"t", b"q", b"f"
# Between the server and the host of an endpoint (`node/side.py`).
CONNECT, CONNECTED, END = b"c", b"d", b"z"
# From both: only says that somebody is there.
ALIVE = b"k"

FROM_CLIENT = frozenset({INPUT, INPUT_END, WINDOW, SIGNAL, ALIVE})

Frame = Tuple[bytes, bytes]


class BadFrame(Exception):
    """The other side does not keep to the form."""


def frame(kind: bytes, content: bytes = b"") -> bytes:
    """One frame as bytes."""
    return _HEAD.pack(kind, len(content)) + content


def json_frame(kind: bytes, values: Mapping[str, Any]) -> bytes:
    """One with values."""
    return frame(kind, json.dumps(values).encode("utf-8", "backslashreplace"))


def values_of(content: bytes) -> Dict[str, Any]:
    """What `json_frame` was given; BadFrame."""
    try:
        values: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadFrame("not JSON") from error
    if not isinstance(values, dict):
        raise BadFrame("not an object")
    return cast("Dict[str, Any]", values)


class Reader:
    """Bytes, in pieces of any size, to frames."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._data = bytearray()

    @property
    def is_between(self) -> bool:
        """Whether no frame is half there."""
        return not self._data

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole with `data`; BadFrame."""
        self._data += data
        while len(self._data) >= _HEAD.size:
            kind, size = _HEAD.unpack_from(self._data)
            if size > self._most_bytes:
                raise BadFrame(f"a frame of {size} bytes")
            end = _HEAD.size + size
            if len(self._data) < end:
                return
            content = bytes(self._data[_HEAD.size : end])
            del self._data[:end]
            yield kind, content
