"""When the files of a set were saved: whether what is there now is of one save, told by their times and by how
long nothing changed between two saves.

Of two saves the files are only while one rank has saved and another is about to. So what lasts longer than its own
times lie apart is of one save, unless a rank has died or hangs; then the times lie a whole pause apart."""

from collections import deque
from typing import Deque, List, Optional, Sequence, Tuple

from .copies import State

_SHARE = 4
"""Times lie close together when the pause between two saves is so many times longer."""
_REMEMBERED = 8
_FOUND_S = 2.0
"""As if this were the pause, where files were there before anybody looked, as an attempt may have left them that
died between two saves."""
_LEAST_PAUSE = 0.75
_MOST_PAUSES = 3
"""So many pauses apart, files that are all newer than a version are of two saves."""

States = Tuple[State, ...]


def spread_s(states: States) -> float:
    """How far their times lie apart."""
    return _spread_s([state.changed_ns for state in states])


def _spread_s(times_ns: Sequence[int]) -> float:
    return (max(times_ns) - min(times_ns)) / 1e9


def are_of_two(now_ns: Sequence[int], before_ns: Sequence[int], pause_s: float) -> bool:
    """Whether files of these times are surely not of one save, by those of a save before. A rank that has died lacks
    a whole pause. Less is how ranks may save that wait for each other, or whose clocks differ; one that lacks many
    pauses is none that the others wait for."""
    moved = [now - before for now, before in zip(now_ns, before_ns)]
    apart_s = min(_spread_s(now_ns), _spread_s(moved))
    # The first of them has saved once since, or more often: this pause was no longer.
    pause_s = max(pause_s, min(moved) / 1e9)
    return _LEAST_PAUSE * pause_s <= apart_s <= _MOST_PAUSES * pause_s


class Saves:
    """Of one set, as seen in many looks."""

    def __init__(self, pause_s: Optional[float] = None) -> None:
        """`pause_s`: as it was known before."""
        self._known_s = pause_s
        self._pauses: Deque[float] = deque(maxlen=_REMEMBERED)
        self._since = self._looked_at = 0.0
        self._is_one = self._is_glimpsed = self._is_found = False
        self._glimpsed: Optional[States] = None
        self._base: Optional[States] = None
        self._settled: Optional[States] = None
        self._is_settled = self.is_loose = False
        self._times: List[int] = []
        """How often each file was saved since the last save of all."""
        self._seen: List[Tuple[float, float]] = []
        """Between which two looks each file was saved."""
        self.now: Optional[States] = None
        self.before: Optional[States] = None
        """The save before this one."""
        self.rest_s = 0.0
        """So long, at least, nothing has changed. By two looks, as file servers have clocks of their own."""
        self.is_judged = False

    def look(self, states: States, at: float) -> None:
        """What is there, by the monotonic clock."""
        last_at, self._looked_at = self._looked_at, at
        unseen_s = at - last_at
        if states == self.now:
            self.rest_s = at - self._since
            self._settle(states)
            return
        if self.now is not None and self._is_one:
            self.before = self._settled = self._base = self.now
            self._glimpsed, self._times, self.is_loose = None, [0] * len(states), False
            self._add_pause(states, self.now, unseen_s)
        elif self._is_glimpsed and (self.is_first or self.is_anew):
            self._glimpsed = self.now
        self._is_found = self.now is None
        was = self.now or (None,) * len(states)
        seen = self._seen or [(last_at, at)] * len(states)
        self._seen = [
            known if one == before else (last_at, at)
            for known, one, before in zip(seen, states, was)
        ]
        self.now, self._since, self.rest_s = states, at, 0.0
        self.is_judged = self._is_one = self._is_glimpsed = self._is_settled = False

    def _add_pause(self, now: States, before: States, unseen_s: float) -> None:
        if self._is_found:
            # That ranks need so long to start is no pause between two saves.
            return
        if unseen_s <= self.rest_s:
            self._pauses.append(self.rest_s)
            return
        # More of it was missed, as while a copy was made, than was seen: until something better is known.
        first_ns = min(one.changed_ns for one, was in zip(now, before) if one != was)
        told_s = (first_ns - max(was.changed_ns for was in before)) / 1e9
        self._known_s = max(self.rest_s, told_s, self._known_s or 0.0)

    def _settle(self, states: States) -> None:
        """Count who has saved. Ranks in step wait for the one that has not: none of them saves twice meanwhile."""
        if self._is_settled or self.is_first or 2 * self.rest_s < self.pause_s:
            return
        self._base = self._base or states
        self._times = self._times or [0] * len(states)
        for place, (one, was) in enumerate(zip(states, self._settled or states)):
            self._times[place] += one != was
        self._settled, self._is_settled = states, True
        has_one_stayed = any(one == was for one, was in zip(states, self._base))
        self.is_loose = has_one_stayed and max(self._times) > 1

    def glimpse(self) -> None:
        """No rank writes, if only for a moment: what is there is not of the next save."""
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
    def is_longer(self) -> bool:
        """Whether it may be known by now that pauses are longer than was thought."""
        return self.is_judged and self._is_one

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
        """Whether it is of one save by its times, and by when they were seen to change, as the clocks of those that
        write may differ by a whole pause."""
        if self.now is None:
            return False
        seen_s = max(since for since, _ in self._seen) - min(until for _, until in self._seen)
        pause_s = min(self.pause_s, _FOUND_S) if self._is_found and self.is_first else self.pause_s
        return max(spread_s(self.now), seen_s) * _SHARE <= pause_s

    @property
    def is_anew(self) -> bool:
        """Whether every file was written since the save before, and since no rank was seen to write: a file that was
        there already while others were written is of another save than theirs."""
        now = self.now or ()
        known = (was for was in (self.before, self._glimpsed) if was is not None)
        return all(one != was for before in known for one, was in zip(now, before))
