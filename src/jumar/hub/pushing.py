"""Who changes the refs of a repository, and who needs them to stay: a lock on its folder.

A push holds it shared, and so does every process that git starts for it: one that outlives a killed
server still does. The collector holds it alone."""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from jumar.errors import NotFound, Unavailable

_WAIT_S = 120.0
_PAUSE_S = 0.05


@contextmanager
def pushing(folder: Path) -> Generator[int]:
    """While refs may change. The descriptor is for git to inherit."""
    with _open(folder) as descriptor:
        give_up_at = time.monotonic() + _WAIT_S
        while not _locked(descriptor, fcntl.LOCK_SH):
            if time.monotonic() > give_up_at:
                raise Unavailable("the repository is being cleaned up", hint="try again later")
            time.sleep(_PAUSE_S)
        yield descriptor


@contextmanager
def undisturbed(folder: Path) -> Generator[bool]:
    """While no ref can change; False where a push is under way."""
    with _open(folder) as descriptor:
        yield _locked(descriptor, fcntl.LOCK_EX)


@contextmanager
def _open(folder: Path) -> Generator[int]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise NotFound("the repository no longer exists") from error
    try:
        yield descriptor
    finally:
        # Only closed: a git that has inherited it keeps the lock until its own end.
        os.close(descriptor)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
