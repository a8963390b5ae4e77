"""Putting versions back on a full disk, which is what leaves files torn."""

import errno
import os
import stat
from typing import Callable, Iterable

from . import beneath, copies, search
from .verdict import TORN

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_BEGINNING = 64
"""So many bytes are left of a torn file: it still looks torn, whoever is killed now."""

Beside = Callable[[int, int, str], str]
"""Gives an open file a name in an open folder, beside the one that it is going to have; that name."""


def put(act: Callable[[Beside], None], torn: Iterable[str], top: str) -> None:
    """`act` with copies, once more with the room that torn files below `top` take, and at last with second names, by
    which versions are lost once a script writes into them."""
    try:
        act(copies.beside)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        for path in torn:
            _empty(path, top)
        # Whoever is told has to know where.
        _put_again(act, OSError(error.errno, os.strerror(error.errno), os.path.join(top, "")))


def _put_again(act: Callable[[Beside], None], why: OSError) -> None:
    try:
        act(copies.beside)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        try:
            act(copies.linked_beside)
        except OSError:
            raise why from None


def is_to_go(path: str, whole: str) -> bool:
    """Whether nothing is lost with a file: it is torn, and not longer than what takes its place."""
    there, kept = copies.state(path), copies.state(whole)
    if there is None or kept is None or there.size > kept.size:
        return False
    return search.judge(path).state == TORN


def _empty(path: str, top: str) -> None:
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with open(os.open(path, flags), "wb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and beneath.is_below(file.fileno(), top):
            file.truncate(min(status.st_size, _BEGINNING))
            os.fsync(file.fileno())
