"""How much each user has used of each kind, with old use counting less and less.

Use is card-seconds of one kind: an hour on an NPU says nothing about whose turn it is for a CPU slot.
It is kept by the day (UTC), and what a day counts halves with every half-life, at midnight and for
everybody alike, so decay alone never changes who has used less than whom. Pure data: it is told the
time and never asks for it, and a clock that goes back makes nothing negative."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from jumar.jobs.scheduling.records import QueuedJob, RunningJob

DAY_S = 86_400
EXPECTED_S = 3600.0
"""What a job is expected to take, unless its limit is shorter. A job counts as much from the moment it
has its cards, so that one user is not given all free cards before the first of them has been used;
when it ends sooner, only what it took is kept."""
_WEEK = 7
_DONT_MATTER = 20
"""After so many half-lives a day counts less than a millionth."""

Owner = tuple[str, str]
"""A kind and a user."""


def day_of(moment: float) -> int:
    """The day (UTC) as a number."""
    return int(moment // DAY_S)


def by_day(cards: int, since: float, until: float) -> Iterator[tuple[int, float]]:
    """Card-seconds of one job on each day that it ran; nothing if the clock went back."""
    while since < until:
        day = day_of(since)
        end = min(until, float((day + 1) * DAY_S))
        yield day, cards * (end - since)
        since = end


def expected_s(longest_s: float | None) -> float:
    """How long a job counts as running when it starts."""
    return EXPECTED_S if longest_s is None else min(EXPECTED_S, longest_s)


def cost(job: QueuedJob) -> float:
    """Card-seconds that the job counts for from the moment it has its cards."""
    # The same as `expected_s` of `longest_s`, spelled out: it is asked of every job in every pass.
    limit_s = job.time_limit_s
    if limit_s is None or limit_s + job.grace_s > EXPECTED_S:
        return job.count * job.nodes * EXPECTED_S
    return job.count * job.nodes * (limit_s + job.grace_s)


class PastUse:
    """Card-seconds of jobs that have ended, by kind, user and day."""

    def __init__(self, half_life_s: float) -> None:
        self.half_life_s = half_life_s
        self._days: dict[Owner, dict[int, float]] = {}
        self._counted: dict[Owner, float] = {}
        self._counted_on = -1

    def add(self, owner: Owner, cards: int, since: float, until: float) -> None:
        """A job has ended."""
        for day, card_s in by_day(cards, since, until):
            self.add_day(owner, day, card_s)

    def add_day(self, owner: Owner, day: int, card_s: float) -> None:
        """What was used on one day."""
        days = self._days.setdefault(owner, {})
        days[day] = days.get(day, 0.0) + card_s
        if self._counted_on >= 0:
            counts = card_s * self._weight(day, self._counted_on)
            self._counted[owner] = self._counted.get(owner, 0.0) + counts

    def oldest_day(self, now: float) -> int:
        """Days before this one no longer matter."""
        return day_of(now) - max(_WEEK, int(self.half_life_s * _DONT_MATTER // DAY_S) + 1)

    def counted(self, now: float) -> Mapping[Owner, float]:
        """What the past counts today."""
        today = day_of(now)
        if self._counted_on != today:
            self._counted = {
                owner: sum(card_s * self._weight(day, today) for day, card_s in days.items())
                for owner, days in self._days.items()
            }
            self._counted_on = today
        return self._counted

    def this_week(self, owner: Owner, now: float) -> float:
        """Card-seconds of today and the six days before, all counting in full."""
        first = day_of(now) - _WEEK + 1
        return sum(card_s for day, card_s in self._days.get(owner, {}).items() if day >= first)

    def so_far(self, cards: int, since: float, now: float) -> float:
        """What a job counts that has run since then and still does."""
        today = day_of(now)
        days = by_day(cards, since, now)
        return sum(card_s * self._weight(day, today) for day, card_s in days)

    def _weight(self, day: int, today: int) -> float:
        # A day that lies ahead was written before the clock went back: it counts as today.
        return 0.5 ** (max(0, today - day) * DAY_S / self.half_life_s)


def use_now(past: PastUse, running: Iterable[RunningJob], now: float) -> dict[Owner, float]:
    """What everybody has used, of the past and with the jobs that run."""
    use = dict(past.counted(now))
    for job in running:
        since = now if job.since is None else job.since
        longest_s = None if job.ends_by is None else max(0.0, job.ends_by - since)
        cards = len(job.cards)
        counts = max(past.so_far(cards, since, now), cards * expected_s(longest_s))
        owner = (job.kind, job.user)
        use[owner] = use.get(owner, 0.0) + counts
    return use


@dataclass(slots=True)
class _Sum:
    """What the running jobs of one owner count: some as expected, the others more by the second."""

    expected: float = 0.0
    cards: int = 0
    offset: float = 0.0

    def now(self, today_s: float) -> float:
        return self.expected + self.offset + self.cards * today_s


class RunningUse:
    """`use_now`, kept up to date: a look costs as many steps as there are owners, not jobs.

    Within a day, what a job has taken so far grows evenly, and passes what it was expected to take
    at one known moment. At midnight all is counted anew."""

    def __init__(self, past: PastUse) -> None:
        self._past = past
        self.running: dict[str, RunningJob] = {}
        self._day = -1
        self._sums: dict[Owner, _Sum] = {}
        self._grows_at: list[tuple[float, str]] = []
        self._growing: set[str] = set()

    def start(self, job: RunningJob, now: float) -> None:
        """A job has its cards from now on."""
        self._turn_day(now)
        self.running[job.job_id] = job
        self._count(job, now)

    def end(self, job_id: str, now: float) -> None:
        """A job gives its cards back: what it took is of the past."""
        self._turn_day(now)
        job = self.running.pop(job_id)
        owner, cards = (job.kind, job.user), len(job.cards)
        known = self._sums[owner]
        if job_id in self._growing:
            self._growing.discard(job_id)
            known.cards -= cards
            known.offset -= self._offset(job)
        else:
            known.expected -= cards * _expected_of(job)
        self._past.add(owner, cards, now if job.since is None else job.since, now)

    def now(self, now: float) -> dict[Owner, float]:
        """What everybody has used, of the past and with the jobs that run."""
        self._turn_day(now)
        while self._grows_at and self._grows_at[0][0] <= now:
            self._grow(heappop(self._grows_at)[1])
        use = dict(self._past.counted(now))
        for owner, known in self._sums.items():
            use[owner] = use.get(owner, 0.0) + known.now(now - self._day * DAY_S)
        return use

    def _turn_day(self, now: float) -> None:
        if self._day != day_of(now):
            self._day = day_of(now)
            self._sums, self._grows_at, self._growing = {}, [], set()
            for job in self.running.values():
                self._count(job, now)

    def _count(self, job: RunningJob, now: float) -> None:
        cards = len(job.cards)
        known = self._sums.setdefault((job.kind, job.user), _Sum())
        known.expected += cards * _expected_of(job)
        grows_at = self._day * DAY_S + _expected_of(job) - self._offset(job) / max(1, cards)
        heappush(self._grows_at, (max(grows_at, now), job.job_id))

    def _grow(self, job_id: str) -> None:
        job = self.running.get(job_id)
        if job is None or job_id in self._growing:
            return
        self._growing.add(job_id)
        known = self._sums[job.kind, job.user]
        known.expected -= len(job.cards) * _expected_of(job)
        known.cards += len(job.cards)
        known.offset += self._offset(job)

    def _offset(self, job: RunningJob) -> float:
        """What it counts at midnight, or would if it had begun then."""
        midnight = float(self._day * DAY_S)
        since = midnight if job.since is None else job.since
        cards = len(job.cards)
        if since >= midnight:
            return -cards * (since - midnight)
        # Told as of today: yesterday counts less.
        return self._past.so_far(cards, since, midnight)


def _expected_of(job: RunningJob) -> float:
    if job.ends_by is None or job.since is None:
        return EXPECTED_S
    return expected_s(max(0.0, job.ends_by - job.since))
