"""When a file may be read to keep a version of it: once its writer is done with it, and not all the time."""

import time
from typing import Container, Dict, Optional, Tuple

from . import copies
from .copies import State

STILL_S = 2.0
"""What has not changed for so long is kept even if its writer still has it open."""
_QUIET_S = 0.3
"""The same where nobody can tell whether somebody has it open to write."""
_TICK_S = 0.02
"""Clocks of file systems go in steps: of what is younger a second change may leave no trace."""
_MOST_OF_TIME_TO_KEEP = 0.05
"""Of one file or set: also one that is large, and written all the time, leaves the disk to the job."""


class Patience:
    """With the files below one folder."""

    def __init__(self, source: str, since: float = 0.0) -> None:
        self._source, self._since = source, since
        self._old: Dict[str, State] = {}
        self._seen: Dict[str, Tuple[State, float]] = {}
        self._due: Dict[str, float] = {}
        self.kept_s = 0.0
        """How long reading and copying took in the last look."""

    def forget(self, names: Container[str]) -> None:
        """All but these."""
        for known in (self._seen, self._due, self._old):
            for name in [name for name in known if name not in names]:
                del known[name]

    def is_old(self, name: str, state: State) -> bool:
        """Whether it is of a time before the job's, by what its file says. One that changes before our eyes is not: the
        clock was set back."""
        if state.changed_ns / 1e9 >= self._since:
            return False
        return self._old.setdefault(name, state) == state

    def is_due(self, name: str, still_s: float) -> bool:
        """Whether it has been left alone for long enough; always at the end."""
        return still_s <= 0 or time.monotonic() >= self._due.get(name, 0.0)

    def took(self, name: str, began: float) -> None:
        """It was read from then until now."""
        took_s = time.monotonic() - began
        self._due[name] = began + took_s / _MOST_OF_TIME_TO_KEEP
        self.kept_s += took_s

    def is_still(self, name: str, path: str, state: State, still_s: float) -> bool:
        """Whether its writer is done with it, as far as can be told."""
        before, seen_at = self._seen.get(name, (None, 0.0))
        if before != state:
            seen_at = time.monotonic()
            self._seen[name] = (state, seen_at)
        quiet_s = time.time() - state.changed_ns / 1e9
        if quiet_s >= still_s:
            return True
        if quiet_s < 0:
            # By a time that is yet to come, since the clock was set back, nothing can be told: by two looks then.
            if before != state:
                return False
            quiet_s = max(_TICK_S, time.monotonic() - seen_at)
        if quiet_s < _TICK_S:
            return False
        is_open: Optional[bool] = copies.is_being_written(path, self._source)
        return quiet_s >= min(_QUIET_S, still_s) if is_open is None else not is_open
