"""Files where a job may write too: written so that no reader sees half of them, and read without
waiting, following or trusting.

A job may put a pipe, a link, a gigabyte or a lie where the platform keeps its files. Writing then fails,
or goes around it. What is wrong with the content is `Unusable`, for good. Any other OSError (no
descriptors, no memory, a file server that does not answer) says nothing about the file: ask again later."""

import errno
import json
import os
import stat
from typing import Any, Dict, Mapping, Optional, cast

# Where a job has put a pipe or a link, opening fails instead of waiting or following.
_NEW_OR_PLAIN = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW


def encode(value: Dict[str, Any]) -> bytes:
    """As JSON. A lone surrogate, from a path that is not UTF-8, becomes an escape and comes back."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def write_json(path: str, value: Dict[str, Any]) -> None:
    """Write aside and rename."""
    write_whole(path, encode(value))


def write_whole(path: str, data: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Aside and renamed, so that a reader sees the old file or the new one. `durable`: it outlives a power
    cut."""
    aside = _write_aside(path, data, mode, durable=durable)
    try:
        os.rename(aside, path)
    except OSError:
        remove(aside)
        raise


def create_json(path: str, value: Dict[str, Any]) -> bool:
    """Write it whole unless it exists; whether this call made it."""
    aside = _write_aside(path, encode(value))
    try:
        os.link(aside, path)
    except FileExistsError:
        return False
    finally:
        remove(aside)
    return True


def append(path: str, data: bytes) -> None:
    """Add to the end in one write."""
    handle = os.open(path, _NEW_OR_PLAIN | os.O_APPEND, 0o644)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)


def reserve(path: str, count: int) -> None:
    """Take the disk space of a file that `write_reserved` writes later. Twice is once."""
    aside = _reserved(path)
    if _has_room(aside, count):
        return
    remove(aside)
    handle = os.open(aside, _NEW_OR_PLAIN | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(handle, 0, count)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
    finally:
        os.close(handle)


def write_reserved(path: str, data: bytes, *, durable: bool = True) -> None:
    """Write the file into the space that was reserved for it."""
    aside = _reserved(path)
    try:
        _write(aside, data, 0, durable=durable)
    except OSError as error:
        if error.errno not in (errno.ENXIO, errno.ELOOP, errno.EISDIR):
            raise
        # The job has put something else in the place of the reserved file.
        remove(aside)
        aside = _write_aside(path, data)
    os.rename(aside, path)


def aside_name(path: str) -> str:
    """A name that a job cannot know beforehand, and put a pipe or a link there."""
    return f"{path}.{os.urandom(6).hex()}.new"


def write_all(handle: int, data: bytes) -> None:
    """All of `data`, however often it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def remove(path: str) -> None:
    """Remove a file, if it exists; a folder that a job has put there stays."""
    try:
        os.unlink(path)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return


def _write_aside(path: str, data: bytes, mode: int = 0o600, *, durable: bool = False) -> str:
    aside = aside_name(path)
    try:
        _write(aside, data, os.O_EXCL, mode, durable=durable)
    except OSError:
        remove(aside)
        raise
    return aside


def _reserved(path: str) -> str:
    return f"{path}.new"


def _has_room(path: str, count: int) -> bool:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_blocks * 512 >= count


# For one user only, unless said: job.json may hold secrets, in variables or in the address of a repository.
def _write(path: str, data: bytes, flags: int, mode: int = 0o600, *, durable: bool) -> None:
    handle = os.open(path, _NEW_OR_PLAIN | flags, mode)
    try:
        if os.fstat(handle).st_nlink > 1:
            # A job may link a reserved file to any other: that one is not to be overwritten.
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        write_all(handle, data)
        os.ftruncate(handle, len(data))
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)


MOST_BYTES = 4 << 20
_NOT_A_FILE = (errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.ENOTDIR)
_LAST_SECOND = 253402300799.0
"""Of the year 9999: later times cannot be shown."""


class Unusable(Exception):
    """A file that does not hold what it must."""


def read_object(path: str, most_bytes: int = MOST_BYTES, top: str = "") -> Dict[str, Any]:
    """The JSON object in a plain file; FileNotFoundError, Unusable, or a passing OSError. `top`: a folder that
    it must really be in, whatever links are on the way."""
    return object_of(_read(path, most_bytes, top), path)


def object_of(data: bytes, path: str) -> Dict[str, Any]:
    """The JSON object in what was read; `path` says from where. Unusable."""
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
    # Compared, not converted: a whole number may be too large to be a float.
    if not 0 <= value <= _LAST_SECOND:
        raise Unusable(f"{name} is out of range")
    return float(value)


def _read(path: str, most_bytes: int, top: str) -> bytes:
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
        if top and not _is_in(handle, os.path.realpath(top)):
            raise Unusable(f"{path} is not in {top}")
        return _at_most(path, handle, most_bytes)
    finally:
        os.close(handle)


def _is_in(handle: int, top: str) -> bool:
    # Of what is open: by its name it may be another file by now.
    return os.readlink(f"/proc/self/fd/{handle}").startswith(top + "/")


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
