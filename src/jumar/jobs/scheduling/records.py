"""What the scheduler is told and what it answers, and the line of waiting jobs: by priority, then first
come. In memory; knows nothing of cards. Times are unix seconds."""

import math
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from jumar.spec.devices import CardRef

Pool = Mapping[str, Mapping[str, Collection[int]]]
"""All cards there are, free or not: kind, then node, then the ids of its cards."""


SPARED_S = 600.0
"""How long a job that gave way once keeps the cards it gets next, if it saves nothing on them."""
_MOST_DOUBLINGS = 40
USUAL_PRIORITY = 100
"""What a job has that nobody gave a priority."""


@dataclass(frozen=True, slots=True)
class OwnLimits:
    """How many devices users may hold, where some have a number of their own."""

    usual: int | None
    """Of all others."""
    by_user: Mapping[str, int]


UserLimit = int | OwnLimits | None
"""How many devices, of all kinds, the running jobs of one user may hold; None: as many as there are."""


def limit_of(limit: UserLimit, user: str) -> int | None:
    """What one user may."""
    return limit.by_user.get(user, limit.usual) if isinstance(limit, OwnLimits) else limit


Shape = tuple[str, int, int]
"""Kind, count and nodes."""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that waits for `count` cards of one kind on each of `nodes` different nodes."""

    job_id: str
    user: str
    kind: str
    count: int
    nodes: int
    priority: int
    order: int
    """Who came first: the smaller number."""
    time_limit_s: float | None
    grace_s: float = 0.0
    """How much longer than its limit the job may hold its cards while it is being ended."""
    rank: int = USUAL_PRIORITY
    """The priority that an administrator gave it, which orders the whole line. A member's own
    priority orders only the jobs of that member, and their rank is the usual one."""
    avoids: tuple[CardRef, ...] = ()
    """Cards that failed under it: it gets others where there are some."""
    preemptible: bool = False
    """Gives way to jobs that cannot otherwise start, and never has others give way."""
    yields_to: str | None = None
    """The job that it gave way to and does not start before, as long as that one waits for cards."""
    since: float | None = None
    """When it came; None: nobody knows."""
    in_line_since: float | None = None
    """Since when nothing but the line keeps it waiting; None: nobody knows."""
    engine: str = "local"
    """Where it is to run."""

    @property
    def shape(self) -> Shape:
        """All that decides whether it fits."""
        return (self.kind, self.count, self.nodes)

    @property
    def needs(self) -> int:
        """Cards over all nodes."""
        return self.count * self.nodes

    @property
    def longest_s(self) -> float | None:
        """The longest it can hold its cards; None: nobody knows."""
        return None if self.time_limit_s is None else self.time_limit_s + self.grace_s

    def lasts_until(self, now: float) -> float:
        """When a job that starts now has surely ended; infinity where nobody knows."""
        longest_s = self.longest_s
        return math.inf if longest_s is None else now + longest_s


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that holds cards."""

    job_id: str
    user: str
    kind: str
    cards: tuple[CardRef, ...]
    ends_by: float | None
    """When its cards are free at the latest: start, limit and grace. None: nobody knows."""
    since: float | None = None
    """When it got its cards; None: just now."""
    preemptible: bool = False
    grace_s: float = 0.0
    """How long it may hold its cards after it was asked to end."""
    saved_at: float | None = None
    """When its last complete checkpoint was written; None: it has none."""
    preemptions: int = 0
    """How often it gave way before."""
    leaves: bool = False
    """Whether it has been asked to end, by whomever; `ends_by` is then the end of its grace."""

    @property
    def spared_until(self) -> float | None:
        """Until when it is not asked to give way again, if it writes no checkpoint before; None: it is asked already
        now. Twice as long each time: what never saves comes to its end all the same, however often others want its
        cards, and they wait no longer than a few times what it has lost to them."""
        if not self.preemptions or self.since is None:
            return None
        if self.saved_at is not None and self.saved_at > self.since:
            return None
        return self.since + SPARED_S * 2.0 ** min(self.preemptions - 1, _MOST_DOUBLINGS)

    def is_spared(self, now: float) -> bool:
        """Whether it gave way before, has had little time since, and has written no checkpoint in it."""
        until = self.spared_until
        return until is not None and now < until

    def lost_card_s(self, now: float) -> float:
        """The work that would be lost if it ended now without another checkpoint."""
        since = now if self.since is None else self.since
        if self.saved_at is not None:
            since = max(since, self.saved_at)
        return len(self.cards) * max(0.0, now - since)


@dataclass(frozen=True, slots=True)
class Start:
    """The decision to start a job now on these cards, node after node."""

    job_id: str
    cards: tuple[CardRef, ...]


_Place = tuple[int, int, str]


def place_of(job: QueuedJob) -> _Place:
    """Sorts jobs into the order of the line."""
    return (-job.priority, job.order, job.job_id)


class Line:
    """Jobs in the order in which they are to start.

    Adding and removing move at most one pointer a waiting job; finding a place is a bisection."""

    def __init__(self) -> None:
        # Two lists side by side: bisection compares the places, iteration gives the jobs.
        self._places: list[_Place] = []
        self._jobs: list[QueuedJob] = []
        self._by_id: dict[str, QueuedJob] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._by_id

    def __iter__(self) -> Iterator[QueuedJob]:
        """The jobs as they stand now; the line may change meanwhile."""
        return iter(tuple(self._jobs))

    def get(self, job_id: str) -> QueuedJob | None:
        """The job, if it waits here."""
        return self._by_id.get(job_id)

    def add(self, job: QueuedJob) -> None:
        """Put a job in its place; one that waits already is moved there."""
        self.discard(job.job_id)
        place = place_of(job)
        index = bisect_left(self._places, place)
        self._places.insert(index, place)
        self._jobs.insert(index, job)
        self._by_id[job.job_id] = job

    def remove(self, job_id: str) -> QueuedJob:
        """Take a job out; KeyError if it is not there."""
        job = self._by_id.pop(job_id)
        index = bisect_left(self._places, place_of(job))
        del self._places[index], self._jobs[index]
        return job

    def discard(self, job_id: str) -> None:
        """Take a job out if it is there."""
        if job_id in self._by_id:
            self.remove(job_id)

    @property
    def first(self) -> QueuedJob:
        """Who starts next; IndexError if nobody waits."""
        return self._jobs[0]

    def position(self, job_id: str) -> int:
        """1 for the first in line; KeyError if it is not there."""
        return bisect_left(self._places, place_of(self._by_id[job_id])) + 1
