"""When the files of a set were saved: whether what is there now is of one save, told by their times and by how
long nothing changed between two saves.

Of two saves the files are only while one rank has saved and another is about to. So what lasts longer than its own
times lie apart is of one save, unless a rank has died or hangs; then the times lie a whole pause apart."""

from collections import deque
from typing import Deque, Optional, Tuple

from .copies import State

_SHARE = 4
"""Times lie close together when the pause between two saves is so many times longer."""
_REMEMBERED = 8

States = Tuple[State, ...]


def spread_s(states: States) -> float:
    """How far their times lie apart."""
    times = [state.changed_ns for state in states]
    return (max(times) - min(times)) / 1e9


def are_close(states: States, pause_s: float) -> bool:
    """Whether files with these times were saved at once, where saves lie so far apart."""
    return spread_s(states) * _SHARE <= pause_s


class Saves:
    """Of one set, as seen in many looks."""

    def __init__(self, pause_s: Optional[float] = None) -> None:
        """`pause_s`: as it was known before."""
        self._known_s = pause_s
        self._pauses: Deque[float] = deque(maxlen=_REMEMBERED)
        self._since = self._looked_at = 0.0
        self._is_one = self._is_glimpsed = False
        self._glimpsed: Optional[States] = None
        self.now: Optional[States] = None
        self.before: Optional[States] = None
        """The save before this one."""
        self.rest_s = 0.0
        """So long, at least, nothing has changed. By two looks, as file servers have clocks of their own."""
        self.is_judged = False

    def look(self, states: States, at: float) -> None:
        """What is there, by the monotonic clock."""
        unseen_s, self._looked_at = at - self._looked_at, at
        if states == self.now:
            self.rest_s = at - self._since
            return
        if self.now is not None and self._is_one:
            self.before = self.now
            if unseen_s <= self.rest_s:
                self._pauses.append(self.rest_s)
            else:
                # More of it was missed, as while a copy was made, than was seen: until something better is known.
                self._known_s = max(self.rest_s, self._known_s or 0.0)
        elif self._is_glimpsed:
            self._glimpsed = self.now
        self.now, self._since, self.rest_s = states, at, 0.0
        self.is_judged = self._is_one = self._is_glimpsed = False

    def glimpse(self) -> None:
        """No rank writes, if only for a moment: where nothing else is known, this is the save before the next."""
        self._is_glimpsed = True

    def count(self) -> None:
        """It is of one save, whether a version is made of it or not."""
        self._is_one = True

    def judge(self, *, is_one: bool) -> None:
        """Until something changes; what is of one save tells how long it lasts."""
        self.is_judged, self._is_one = True, is_one
        self._is_glimpsed = True

    @property
    def pause_s(self) -> float:
        """Between two saves, at least."""
        known_s = self.rest_s if self._known_s is None else self._known_s
        return min(self._pauses, default=known_s)

    @property
    def is_first(self) -> bool:
        """Whether nothing is known yet of saves before."""
        return not self._pauses and self._known_s is None

    @property
    def has_rested(self) -> bool:
        """Whether it has lasted for so long that nobody is about to save who has not."""
        if self.now is None:
            return False
        return self.rest_s >= spread_s(self.now) * (_SHARE if self.is_first else 1)

    @property
    def is_close(self) -> bool:
        """Whether it is of one save by its times."""
        return self.now is not None and are_close(self.now, self.pause_s)

    @property
    def is_anew(self) -> bool:
        """Whether every file was written since the save before."""
        now, before = self.now or (), self.before or self._glimpsed
        return before is None or all(one != was for one, was in zip(now, before))
