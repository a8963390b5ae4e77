"""Who has waited so long that those who came later no longer go ahead.

Turns by use alone would leave the wide jobs of somebody who uses much waiting for days: small jobs of others
always fit somewhere, so cards are never kept for the wide one. And with them wait the cards: the small jobs that
would fill the gaps beside a wide one are gone by the night.

A job is overdue after a day; where more waits than runs sooner, and a wide one soonest, since it fits by chance least
often and is what is left over in a long line. Where little waits, turns by use are better for everybody. Only
time in the line counts: a job that had cards before, or that was kept out of the line by other jobs, is never overdue."""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jumar.jobs.scheduling.records import QueuedJob
from jumar.jobs.scheduling.use import DAY_S

Place = tuple[float, int, str]
"""Since when, who came first, and whose it is."""


def patience_s(needs: int, crowding: float) -> float:
    """How long a job for so many cards stands back. `crowding`: how many times the cards in use the line wants."""
    return DAY_S / max(1.0, crowding**2 * math.sqrt(needs) / 8)


@dataclass(frozen=True, slots=True)
class Overdue:
    """Those of one tier and kind who have waited long at one moment."""

    places: Sequence[Place]
    """First come, at least one."""
    now: float
    crowding: float

    def has(self, job: QueuedJob) -> bool:
        """Whether the job is one of them."""
        since = job.in_line_since
        return since is not None and self.now - since >= patience_s(job.needs, self.crowding)

    def begins_with(self, job: QueuedJob) -> bool:
        """Whether nobody has waited longer, or only one of the same user's, for whom it stands."""
        if job.in_line_since is None or not self.has(job):
            return False
        first = self.places[0]
        return job.user == first[2] or (job.in_line_since, job.order, job.user) <= first

    def first_come(
        self, jobs: Mapping[str, Sequence[QueuedJob]], ahead: Iterable[QueuedJob]
    ) -> Iterator[QueuedJob]:
        """In the order in which they came, each user's in that user's own order. `ahead`: who had a turn already.

        An own job that is put first and is not overdue itself keeps its user's others from going ahead: else
        an old job that is never let go would bring each new one to the front."""
        next_of: dict[str, int] = {}
        had = {(job.in_line_since, job.order, job.user) for job in ahead}
        for came in self.places:
            if came in had:
                continue
            user = came[2]
            place, line = next_of.get(user, 0), jobs.get(user, ())
            if place < len(line) and self.has(line[place]):
                next_of[user] = place + 1
                yield line[place]


class Arrivals:
    """Waiting jobs of one tier and kind, by when they came into the line."""

    def __init__(self) -> None:
        self._places: dict[int, list[Place]] = {}
        """By how many cards they need: those of a size are overdue after the same time."""

    def add(self, job: QueuedJob) -> None:
        """A job comes; one of which nobody knows since when is never overdue."""
        if job.in_line_since is not None:
            places = self._places.setdefault(job.needs, [])
            insort(places, (job.in_line_since, job.order, job.user))

    def remove(self, job: QueuedJob) -> None:
        """A job that came leaves."""
        if job.in_line_since is not None:
            places = self._places[job.needs]
            del places[bisect_left(places, (job.in_line_since, job.order, job.user))]

    def overdue(self, now: float, crowding: float) -> Overdue | None:
        """Those who have waited long, if anybody has."""
        found: list[Place] = []
        for needs, places in self._places.items():
            by = now - patience_s(needs, crowding)
            if places and places[0][0] <= by:
                found += places[: bisect_right(places, by, key=_since)]
        return Overdue(sorted(found), now, crowding) if found else None


def _since(place: Place) -> float:
    return place[0]
