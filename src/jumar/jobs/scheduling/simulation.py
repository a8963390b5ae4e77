"""The scheduler run ahead in time, with no cards, no processes and no clock.

Used to foresee when a job starts, and to try the scheduler at sizes no machine here has: it is
part of the package because forecasts need it, and the tests and benchmarks use the same one."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from jumar.jobs.scheduling.records import Line
from jumar.jobs.scheduling.schedule import Holdings, Pass, Pool, QueuedJob, RunningJob, Start
from jumar.jobs.scheduling.turns import FairLine, Shares
from jumar.jobs.scheduling.use import PastUse, use_now


@dataclass(frozen=True, slots=True)
class Moment:
    """One pass of the scheduler at one time."""

    now: float
    starts: tuple[Start, ...]
    decided: Pass
    """The pass as it ended: its heads and what is kept for them. Good until the next moment."""


class FirstCome:
    """The line by priority, then first come, whoever has used what."""

    def __init__(self) -> None:
        self._line = Line()

    def __len__(self) -> int:
        return len(self._line)

    def add(self, job: QueuedJob) -> None:
        """A job comes."""
        self._line.add(job)

    def start(self, start: Start, _now: float) -> QueuedJob:
        """A job leaves the line for its cards."""
        return self._line.remove(start.job_id)

    def end(self, job_id: str, now: float) -> None:
        """A job gives its cards back."""

    def order(self, _now: float) -> Iterable[QueuedJob]:
        """The line at this moment."""
        return self._line


@dataclass(slots=True)
class Fair:
    """The line in the order of turns, with what everybody uses on the way."""

    past: PastUse
    shares: Shares = field(default_factory=Shares)
    running: dict[str, RunningJob] = field(default_factory=dict[str, RunningJob])
    line: FairLine = field(default_factory=FairLine)

    def __len__(self) -> int:
        return len(self.line)

    def add(self, job: QueuedJob) -> None:
        """A job comes."""
        self.line.add(job)

    def start(self, start: Start, now: float) -> QueuedJob:
        """A job leaves the line for its cards."""
        job = self.line.remove(start.job_id)
        ends_by = None if job.longest_s is None else now + job.longest_s
        run = RunningJob(job.job_id, job.user, job.kind, start.cards, ends_by, since=now)
        self.running[job.job_id] = run
        return job

    def end(self, job_id: str, now: float) -> None:
        """A job gives its cards back: what it took is kept."""
        job = self.running.pop(job_id)
        since = now if job.since is None else job.since
        self.past.add((job.kind, job.user), len(job.cards), since, now)

    def order(self, now: float) -> Iterable[QueuedJob]:
        """The line at this moment."""
        return self.line.turns(use_now(self.past, self.running.values(), now), self.shares)


def whole_limit(job: QueuedJob) -> float | None:
    """Every job uses all the time it may; one without a limit never ends."""
    return job.longest_s


def simulate(
    arrivals: Iterable[tuple[float, QueuedJob]],
    pool: Pool,
    running: Iterable[RunningJob] = (),
    *,
    now: float,
    user_limit: int | None,
    running_limit: int | None = None,
    holds_s: Callable[[QueuedJob], float | None] = whole_limit,
    line: FirstCome | Fair | None = None,
) -> Iterator[Moment]:
    """Pass after pass, at `now` and whenever a job comes or ends, until nothing more happens.

    Jobs that run already end at their `ends_by`; those that start hold their cards for `holds_s`,
    which must not be longer than they may, else the scheduler was promised what is not true.
    `line`: in which order jobs are looked at, first come unless told otherwise; with a `Fair` one,
    jobs that run already have to be in it."""
    running = tuple(running)
    holdings = Holdings(pool, running, user_limit=user_limit, running_limit=running_limit)
    coming = sorted(arrivals, key=lambda arrival: -arrival[0])
    line = FirstCome() if line is None else line
    ends = [(max(job.ends_by, now), job.job_id) for job in running if job.ends_by is not None]
    heapq.heapify(ends)
    while True:
        while coming and coming[-1][0] <= now:
            line.add(coming.pop()[1])
        while ends and ends[0][0] <= now:
            ended_at, job_id = heapq.heappop(ends)
            holdings.end(job_id)
            line.end(job_id, ended_at)
        decided = Pass(holdings, now)
        starts = tuple(decided.go_through(line.order(now)))
        for start in starts:
            held_s = holds_s(line.start(start, now))
            if held_s is not None:
                heapq.heappush(ends, (now + held_s, start.job_id))
        yield Moment(now, starts, decided)
        if not coming and not (ends and line):
            return
        now = min(time for time, _ in (*ends[:1], *coming[-1:]))
