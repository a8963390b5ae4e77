"""The logs that somebody means: files, folders with all in them, and standard input."""

import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO

from jumar.errors import BadInput
from jumar.why.script.code import Folders, has_python
from jumar.why.signs import Source

_MOST_FILES = 20_000
_RANK = re.compile(r"rank[-_]?(\d{1,7})(?=\D|$)|worker[-_](\d{1,7})(?=\D|$)", re.I)
_COPIED = 1 << 20


def from_paths(paths: list[str]) -> list[Source]:
    """The logs at these paths, each once; BadInput for one that cannot be read."""
    found = {os.path.realpath(path): path for given in paths for path in _files(given)}
    if len(found) > _MOST_FILES:
        raise BadInput(
            f"more than {_MOST_FILES:,} files are in {', '.join(paths)}",
            hint="name the folder of the logs",
        )
    return [from_path(path) for path in found.values()]


def from_path(path: str) -> Source:
    """The log in a file; its rank is taken from its name."""
    return Source(path, partial(_open, path), rank=rank_of(path))


def from_stream(stream: BinaryIO) -> Source:
    """A log that comes in only once."""
    kept = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the source
    while block := stream.read(_COPIED):
        kept.write(block)
    kept.flush()
    return Source("-", lambda: os.dup(kept.fileno()))


def code_beside(paths: Sequence[str], given: str | None) -> Folders:
    """The code that these logs are of: the folder that is given, else where the logs lie, if that holds any, else where one is."""
    if given is not None:
        if not os.path.isdir(given):
            raise BadInput(f"{given} is not a folder", hint="name the folder of the script")
        return Folders([given], is_sure=True)
    folders = dict.fromkeys(
        path if os.path.isdir(path) else os.path.dirname(path) for path in paths
    )
    beside = [folder for folder in folders if has_python(folder)]
    # What lies where one is may be another training's.
    here = [""] if not beside and has_python("") else []
    return Folders([folder or "." for folder in (*beside, *here)], is_sure=bool(beside))


def rank_of(path: str) -> int | None:
    """The rank that the name of a log has in it."""
    found = _RANK.search(os.path.basename(path))
    return None if found is None else int(found[1] or found[2])


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        # Says why, where it cannot be read.
        os.close(_open(path))
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            inside = os.path.join(folder, name)
            if _is_log(inside):
                yield inside


def _is_log(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode) and os.access(path, os.R_OK)
    except OSError:
        # Logs are rotated away meanwhile.
        return False


def _open(path: str) -> int:
    try:
        # A pipe without a writer is not waited for.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise BadInput(f"{path} is not a plain file", hint="pipe it in instead: jumar why -")
    return fd
