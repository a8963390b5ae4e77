"""The three answers, and how files that a job wrote are opened to find them."""

import contextlib
import os
import stat
from typing import BinaryIO, Generator, NamedTuple

COMPLETE = "complete"
TORN = "torn"
UNKNOWN = "unknown"


class Verdict(NamedTuple):
    """What is known of a checkpoint, and in a few words why."""

    state: str
    why: str = ""


class Torn(Exception):
    """It is not what its writer meant to write."""


class Unclear(Exception):
    """Nothing can be said about it."""


@contextlib.contextmanager
def opened(path: str) -> Generator[BinaryIO, None, None]:
    """A plain file to read; no waiting for the writer of a pipe."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise Torn(f"{os.path.basename(path)} is missing") from error
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Unclear(f"{os.path.basename(path)} is not a plain file")
        yield file


def is_number(text: str) -> bool:
    """Whether `int` takes it: `isdigit` is true of `²` as well."""
    return text.isascii() and text.isdigit()


def size_of(file: BinaryIO) -> int:
    """In bytes."""
    here = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(here)
    return size


def exactly(file: BinaryIO, count: int) -> bytes:
    """The next bytes, all of them."""
    # Files of the kernel may have nothing to say yet.
    data = file.read(count) or b""
    if len(data) < count:
        raise Torn(f"it ends at byte {file.tell()}, inside of something")
    return data
