"""Files written so that no reader sees half of them, and no job makes a writer wait or follow.

A job may put a pipe or a link where the platform writes: then writing fails, or goes around it."""

import errno
import json
import os
import stat
from typing import Any, Dict

# Where a job has put a pipe or a link, opening fails instead of waiting or following.
_NEW_OR_PLAIN = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW


def encode(value: Dict[str, Any]) -> bytes:
    """As JSON. A lone surrogate, from a path that is not UTF-8, becomes an escape and comes back."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def write_json(path: str, value: Dict[str, Any]) -> None:
    """Write aside and rename."""
    aside = _write_aside(path, encode(value))
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


def write_reserved(path: str, data: bytes) -> None:
    """Write the file, durably, into the space that was reserved for it."""
    aside = _reserved(path)
    try:
        _write(aside, data, 0, durable=True)
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


def _write_aside(path: str, data: bytes) -> str:
    aside = aside_name(path)
    try:
        _write(aside, data, os.O_EXCL, durable=False)
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


def _write(path: str, data: bytes, flags: int, durable: bool) -> None:
    # For one user only: job.json may hold secrets, in variables or in the address of a repository.
    handle = os.open(path, _NEW_OR_PLAIN | flags, 0o600)
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
