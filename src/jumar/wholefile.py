"""Files that appear complete or not at all: written aside, then renamed.

The launcher and what runs inside a job cannot import this; each has a helper of its own."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(
    path: Path, *, private: bool = False, durable: bool = False, replace: bool = True
) -> Generator[BinaryIO]:
    """A new file that gets the name `path` when the block ends without an error.

    `private`: only the owner can read it. `durable`: it survives a power failure. Without `replace`,
    FileExistsError if there is such a file by then."""
    aside = path.with_name(f".jumar-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(aside, flags, 0o600 if private else 0o666), "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if replace:
            os.replace(aside, path)
        else:
            os.link(aside, path)
    finally:
        with suppress(OSError):
            os.unlink(aside)


def sync(path: Path) -> None:
    """A folder's names, or a file's bytes, onto the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, text: str, *, private: bool = False, durable: bool = False) -> None:
    """Write `text` to `path`, completely or not at all."""
    with whole_file(path, private=private, durable=durable) as file:
        file.write(text.encode("utf-8"))
