"""Who has waited so long that those who came later no longer go ahead.

Turns by use alone would leave the wide jobs of somebody who uses much waiting for days: small jobs of others
always fit somewhere, so cards are never kept for the wide one. Only time in the line counts: a job that had
cards before, or that was kept out of the line by other jobs, is never overdue."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence

from jumar.jobs.scheduling.records import QueuedJob

PATIENCE_S = 4 * 3600.0
"""After so long in the line a job is overdue."""

Place = tuple[float, int, str]
"""Since when, who came first, and whose it is."""


class Arrivals:
    """Waiting jobs by when they came into the line."""

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

    def overdue(self, now: float) -> Sequence[Place]:
        """Those who have waited long, first come."""
        return self._places[: bisect_right(self._places, now - PATIENCE_S, key=_since)]


def _since(place: Place) -> float:
    return place[0]


def is_first(job: QueuedJob, overdue: Sequence[Place]) -> bool:
    """Whether the job is one that has waited longest, or stands in the place of such a one of its user's."""
    since, (last, *_) = job.in_line_since, overdue[-1]
    if since is None or since > last:
        return False
    return job.user == overdue[0][2] or (since, job.order, job.user) <= overdue[0]


def first_come(
    jobs: Mapping[str, Sequence[QueuedJob]], overdue: Sequence[Place]
) -> Iterator[QueuedJob]:
    """The overdue jobs of a kind in the order in which they came, each user's in that user's own order.

    An own job that is put first and is not overdue itself keeps its user's others from going ahead: else an
    old job that is never let go would bring each new one to the front."""
    last = overdue[-1][0]
    next_of: dict[str, int] = {}
    for *_, user in overdue:
        place, line = next_of.get(user, 0), jobs.get(user, ())
        if place < len(line):
            since = line[place].in_line_since
            if since is not None and since <= last:
                next_of[user] = place + 1
                yield line[place]
