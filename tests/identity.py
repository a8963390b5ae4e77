"""Being another user for a moment, in one thread alone.

`os.seteuid` and its like change all threads of a process, so those that other tests or fixtures have left
at work as well; the kernel itself knows users by thread."""

import ctypes
import os
import platform
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

_libc = ctypes.CDLL(None, use_errno=True)
_UNCHANGED = -1


class _Calls(NamedTuple):
    setgroups: int
    setresuid: int
    setresgid: int


# Every other 64-bit kernel uses the generic table.
_CALLS = _Calls(116, 117, 119) if platform.machine() == "x86_64" else _Calls(159, 147, 149)


def _call(number: int, *arguments: object) -> None:
    if _libc.syscall(number, *arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _set_groups(groups: Sequence[int]) -> None:
    _call(_CALLS.setgroups, len(groups), (ctypes.c_uint * len(groups))(*groups))


@contextmanager
def being(uid: int, gid: int) -> Generator[None]:
    """With the rights of a user, in this thread and in what it starts meanwhile; for root."""
    groups, own_uid, own_gid = os.getgroups(), os.getuid(), os.getgid()
    _set_groups([])
    _call(_CALLS.setresgid, gid, gid, _UNCHANGED)
    _call(_CALLS.setresuid, uid, uid, _UNCHANGED)
    try:
        yield
    finally:
        _call(_CALLS.setresuid, own_uid, own_uid, _UNCHANGED)
        _call(_CALLS.setresgid, own_gid, own_gid, _UNCHANGED)
        _set_groups(groups)
