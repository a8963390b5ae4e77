"""Files that a job may have written: read without waiting, following or trusting.

A job may put a pipe, a link, a gigabyte or a lie where the platform keeps its files. What is wrong
with the content is `Unusable`, for good. Any other OSError (no descriptors, no memory, a file server
that does not answer) says nothing about the file: ask again later."""

import errno
import json
import math
import os
import stat
from typing import Any, Dict, Mapping, Optional, cast

MOST_BYTES = 4 << 20
_NOT_A_FILE = (errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.ENOTDIR)
_LAST_SECOND = 253402300799.0
"""Of the year 9999: later times cannot be shown."""


class Unusable(Exception):
    """A file that does not hold what it must."""


def read_object(path: str, most_bytes: int = MOST_BYTES) -> Dict[str, Any]:
    """The JSON object in a plain file; FileNotFoundError, Unusable, or a passing OSError."""
    data = _read(path, most_bytes)
    try:
        value: object = json.loads(data.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Unusable(f"{path} does not hold a JSON object")
    return cast("Dict[str, Any]", value)


def text(values: Mapping[str, Any], name: str) -> str:
    """A text that must be there."""
    value = values.get(name)
    if not isinstance(value, str):
        raise Unusable(f"{name} is not a text")
    return value


def optional_text(values: Mapping[str, Any], name: str) -> Optional[str]:
    """A text, or nothing."""
    return None if values.get(name) is None else text(values, name)


def whole(values: Mapping[str, Any], name: str) -> int:
    """A number that a 32-bit column has room for, or a pid."""
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 1 << 31:
        raise Unusable(f"{name} is not a whole number, or too large")
    return value


def optional_whole(values: Mapping[str, Any], name: str) -> Optional[int]:
    """A whole number, or nothing."""
    return None if values.get(name) is None else whole(values, name)


def optional_time(values: Mapping[str, Any], name: str) -> Optional[float]:
    """Unix seconds, or nothing."""
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unusable(f"{name} is not a time")
    if not (math.isfinite(value) and 0 <= value <= _LAST_SECOND):
        raise Unusable(f"{name} is out of range")
    return float(value)


def _read(path: str, most_bytes: int) -> bytes:
    # NONBLOCK: opening a pipe would wait for a writer, for ever.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno in _NOT_A_FILE:
            raise Unusable(f"{path} is not a plain file") from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Unusable(f"{path} is not a plain file")
        return _at_most(path, handle, most_bytes)
    finally:
        os.close(handle)


def _at_most(path: str, handle: int, most_bytes: int) -> bytes:
    data = b""
    while True:
        block = os.read(handle, most_bytes + 1 - len(data))
        data += block
        if len(data) > most_bytes:
            raise Unusable(f"{path} is larger than {most_bytes} bytes")
        if not block:
            return data


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")
