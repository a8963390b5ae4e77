"""Accounts and groups of this machine, as the system tells them. Behind it may be a directory server that
hangs: nobody waits for it longer than a few seconds, and meanwhile what it said last is good."""

import ctypes
import grp
import pwd
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from jumar.errors import Unavailable

LIMIT_S = 3.0
KEPT_S = 3600.0
"""So long an answer stands in for one that does not come."""
_MOST_KEPT = 10_000
_MOST_GROUPS = 65_536
_T = TypeVar("_T")
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class _Asked:
    """One question that is under way."""

    since: float
    done: threading.Event
    value: Any = None
    error: Exception | None = None


class Lookups:
    """Thread-safe. Each question has at most one thread, however often it is asked."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._asked: dict[object, _Asked] = {}
        self._known: dict[object, tuple[float, Any]] = {}

    def by_uid(self, uid: int) -> pwd.struct_passwd:
        """KeyError where there is none."""
        return self._ask(("uid", uid), lambda: pwd.getpwuid(uid))

    def by_name(self, name: str) -> pwd.struct_passwd:
        """KeyError where there is none."""
        return self._ask(("name", name), lambda: pwd.getpwnam(name))

    def group(self, name: str) -> int:
        """Its number; KeyError where there is none."""
        return self._ask(("group", name), lambda: grp.getgrnam(name).gr_gid)

    def groups_of(self, name: str, gid: int) -> frozenset[int]:
        """The groups of an account."""
        return self._ask(("groups", name, gid), lambda: _groups_of(name, gid))

    def _ask(self, key: object, question: Callable[[], _T]) -> _T:
        with self._lock:
            asked = self._asked.get(key)
            if asked is None:
                asked = _Asked(time.monotonic(), threading.Event())
                words = (key, asked, question)
                # It waits for the lock before it is over, and is not noted where there is no thread to be had.
                threading.Thread(target=self._answer, args=words, daemon=True).start()
                self._asked[key] = asked
        # Who comes while it hangs need not find that out anew.
        left_s = asked.since + self._limit_s - time.monotonic()
        if not asked.done.wait(max(0.0, left_s)):
            return self._last(key)
        if asked.error is not None:
            raise asked.error
        return asked.value

    def _answer(self, key: object, asked: _Asked, question: Callable[[], object]) -> None:
        try:
            asked.value = question()
        except (KeyError, OSError, ValueError) as error:
            # A name that no account can have is a ValueError.
            asked.error = error
        with self._lock:
            self._asked.pop(key, None)
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            if asked.error is None:
                self._known[key] = (time.monotonic(), asked.value)
            else:
                self._known.pop(key, None)
        asked.done.set()

    def _last(self, key: object) -> Any:
        with self._lock:
            found = self._known.get(key)
        if found is None or time.monotonic() - found[0] > KEPT_S:
            raise Unavailable(
                f"the accounts of this machine cannot be looked up: no answer in {self._limit_s:g} s",
                hint="try again; an administrator looks at the directory server (getent passwd)",
            )
        return found[1]


def _groups_of(name: str, gid: int) -> frozenset[int]:
    """As `os.getgrouplist`, which lets no other thread run meanwhile."""
    count = ctypes.c_int(64)
    while count.value <= _MOST_GROUPS:
        room = count.value
        found = (ctypes.c_uint * room)()
        if _libc.getgrouplist(name.encode(), ctypes.c_uint(gid), found, ctypes.byref(count)) >= 0:
            return frozenset(found[: count.value])
        count.value = max(count.value, 2 * room)
    raise OSError(f"{name} is in too many groups")
