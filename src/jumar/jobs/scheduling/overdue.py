"""Who has waited so long that those who came later no longer go ahead.

Turns by use alone would leave the wide jobs of somebody who uses much waiting for days: small jobs of others
always fit somewhere, so cards are never kept for the wide one. And with them wait the cards: the small jobs that
would fill the gaps beside a wide one are gone by the night.

A job is overdue after a day, whatever it asks for. Sooner for wide jobs or in long lines was tried: the longest wait
does not get shorter, the others' do get longer. Only time in the line counts: a job that had cards before, or that
was kept out of the line by other jobs, is never overdue."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jumar.jobs.scheduling.records import QueuedJob
from jumar.jobs.scheduling.use import DAY_S

Place = tuple[float, int, str]
"""Since when, who came first, and whose it is."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """Those of one tier and kind who have waited long at one moment."""

    places: Sequence[Place]
    """First come, at least one."""
    now: float

    def has(self, job: QueuedJob) -> bool:
        """Whether the job is one of them."""
        since = job.in_line_since
        return since is not None and self.now - since >= DAY_S

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
        self._places: list[Place] = []

    def add(self, job: QueuedJob) -> None:
        """A job comes; one of which nobody knows since when is never overdue."""
        if job.in_line_since is not None:
            insort(self._places, (job.in_line_since, job.order, job.user))

    def remove(self, job: QueuedJob) -> None:
        """A job that came leaves."""
        if job.in_line_since is not None:
            del self._places[bisect_left(self._places, (job.in_line_since, job.order, job.user))]

    def overdue(self, now: float) -> Overdue | None:
        """Those who have waited long, if anybody has."""
        places = self._places
        if not places or now - places[0][0] < DAY_S:
            return None
        return Overdue(places[: bisect_right(places, now - DAY_S, key=_since)], now)


def _since(place: Place) -> float:
    return place[0]
