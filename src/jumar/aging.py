"""For how long nobody has set the clock: what is deleted for its age is judged by times that the clock wrote, and
a clock that jumps by years makes everything old.

By how much the clock is ahead of the one that nobody can set, since the machine was started, is the same until
somebody sets it. Over a restart of the machine that cannot be known: a time off of a week or less is believed.
Whoever deletes asks first whether the clock was left alone for as long as things are kept; then all that was
written before it was set is that old, too."""

import json
import logging
import math
import threading
import time
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from jumar.wholefile import write_whole

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
"""Set and set back in between, it leaves times that nobody knows to be wrong."""
_NAME = "clock.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_TOLERANCE_S = 600.0
"""Less than all that anything is kept for."""
_LONGEST_OFF_S = 7 * 86400.0
_WRITE_EVERY_S = 3600.0


@dataclass(frozen=True, slots=True)
class _Known:
    boot: str
    ahead_s: float
    """Of the clock that counts from the start of the machine."""
    left_alone_since: float
    seen: float
    """When the file was written: over a restart of the machine, the last that is known."""


class Clock:
    """Of one home; thread-safe."""

    def __init__(self, home: Path) -> None:
        self._path = home / _NAME
        self._lock = threading.Lock()
        self._known: _Known | None = None

    def look(self) -> None:
        """Notice that it was set."""
        with self._lock:
            self._look()

    def is_left_alone(self, for_s: float) -> bool:
        """Whether nobody has set it for so long: then what is older by it than that really is."""
        with self._lock:
            return time.time() - self._look().left_alone_since >= for_s

    def _look(self) -> _Known:
        before = self._known or self._read()
        now, boot = time.time(), _boot()
        ahead_s = now - time.clock_gettime(time.CLOCK_BOOTTIME)
        if before is None:
            after = _Known(boot, ahead_s, 0.0, now)
        else:
            after = replace(before, boot=boot, ahead_s=ahead_s, seen=now)
            if _was_set(before, after):
                log.warning(
                    "the clock was set: nothing is deleted for its age until that is long ago"
                )
                after = replace(after, left_alone_since=now)
            elif before.boot == boot:
                # Not what is measured now: small steps would add up to a large one.
                after = replace(after, ahead_s=before.ahead_s)
        if before is None or after.seen - before.seen >= _WRITE_EVERY_S or _differ(before, after):
            self._write(after)
            self._known = after
        else:
            self._known = before
        return after

    def _write(self, known: _Known) -> None:
        try:
            write_whole(self._path, json.dumps(asdict(known)), private=True)
        except OSError as error:
            # The disk is full: it is known until this process ends.
            log.warning("cannot write %s: %s", self._path, error)

    def _read(self) -> _Known | None:
        try:
            said = cast("dict[str, Any]", json.loads(self._path.read_text("utf-8")))
            known = _Known(
                str(said["boot"]),
                *(float(said[name]) for name in ("ahead_s", "left_alone_since", "seen")),
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            # What was known is lost: as if it had been set.
            return _Known("", 0.0, 0.0, -math.inf)
        return known


@lru_cache(maxsize=8)
def clock_of(home: Path) -> Clock:
    """One for all who delete."""
    return Clock(home)


def _was_set(before: _Known, after: _Known) -> bool:
    if before.boot == after.boot:
        return abs(after.ahead_s - before.ahead_s) > _TOLERANCE_S
    return not -_TOLERANCE_S <= after.seen - before.seen <= _LONGEST_OFF_S


def _differ(before: _Known, after: _Known) -> bool:
    return replace(after, seen=before.seen) != before


def _boot() -> str:
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return ""
