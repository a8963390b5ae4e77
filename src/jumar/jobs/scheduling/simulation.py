"""The scheduler run ahead in time, with no cards, no processes and no clock.

Used to foresee when a job starts, and to try the scheduler at sizes no machine here has: it is
part of the package because forecasts need it, and the tests and benchmarks use the same one."""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from jumar.jobs.scheduling.records import Line, Pool, QueuedJob, RunningJob, Start, UserLimit
from jumar.jobs.scheduling.schedule import Holdings, Pass, Refusal
from jumar.jobs.scheduling.turns import FairLine, Shares
from jumar.jobs.scheduling.use import PastUse, RunningUse


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

    def keep(self, heads: Mapping[str, QueuedJob]) -> None:
        """The first stays the first."""


@dataclass(slots=True)
class Fair:
    """The line in the order of turns, with what everybody uses on the way."""

    past: PastUse
    shares: Shares = field(default_factory=Shares)
    line: FairLine = field(default_factory=FairLine)
    use: RunningUse = field(init=False)
    heads: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.use = RunningUse(self.past)

    @property
    def running(self) -> Mapping[str, RunningJob]:
        """Who holds cards."""
        return self.use.running

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
        self.use.start(run, now)
        return job

    def end(self, job_id: str, now: float) -> None:
        """A job gives its cards back: what it took is kept."""
        self.use.end(job_id, now)

    def order(self, now: float) -> Iterable[QueuedJob]:
        """The line at this moment."""
        return self.line.turns(self.use.now(now), self.shares, self.heads, now=now)

    def keep(self, heads: Mapping[str, QueuedJob]) -> None:
        """Cards are being kept for these."""
        self.heads.update({kind: job.job_id for kind, job in heads.items()})


def whole_limit(job: QueuedJob) -> float | None:
    """Every job uses all the time it may; one without a limit never ends."""
    return job.longest_s


class Work:
    """What jobs do once they have their cards. Here: hold them, once, for as long as is said."""

    to_the_end = False
    """Whether the ends of jobs matter when nobody waits any more."""

    def __init__(self, holds_s: Callable[[QueuedJob], float | None] = whole_limit) -> None:
        self._holds_s = holds_s

    def begin(self, job: QueuedJob, start: Start, now: float) -> float | None:
        """How long the job holds its cards if nobody asks for them; None: for ever."""
        return self._holds_s(job)

    def end(self, job_id: str, now: float) -> QueuedJob | None:
        """The cards are free again. What comes back to the line, if anything does."""

    def may_leave(self, now: float) -> Iterable[RunningJob]:
        """Who could be preempted, or leaves already."""
        return ()

    def leave(self, job_id: str, head_id: str, now: float) -> float:
        """The job is asked to leave for another: when it is gone."""
        raise NotImplementedError


def backfilling(decided: Pass, order: Iterable[QueuedJob]) -> list[Start]:
    """The rules of `schedule`."""
    return decided.go_through(order)


def strictly(decided: Pass, order: Iterable[QueuedJob]) -> list[Start]:
    """Nobody starts before those who came first: what schedulers are compared with."""
    starts: list[Start] = []
    for job in order:
        outcome = decided.offer(job)
        if isinstance(outcome, Start):
            starts.append(outcome)
        elif outcome is Refusal.NO_CARDS:
            break
    return starts


def simulate(
    arrivals: Iterable[tuple[float, QueuedJob]],
    pool: Pool,
    running: Iterable[RunningJob] = (),
    *,
    now: float,
    user_limit: UserLimit,
    running_limit: int | None = None,
    work: Work | None = None,
    line: FirstCome | Fair | None = None,
    rule: Callable[[Pass, Iterable[QueuedJob]], list[Start]] = backfilling,
    lazy: bool = False,
) -> Iterator[Moment]:
    """Pass after pass, at `now` and whenever a job comes or ends, until nothing more happens. Lazy:
    not when one comes that could not itself start, as the server does it (`Roster.chances`).

    Jobs that run already end at their `ends_by`; those that start hold their cards as long as
    `work` says, which must not be longer than they may, else the scheduler was promised what is
    not true. `line`: in which order jobs are looked at, first come unless told otherwise; a `Fair`
    one knows only of jobs that it saw start."""
    running = tuple(running)
    holdings = Holdings(pool, running, user_limit=user_limit, running_limit=running_limit)
    line = FirstCome() if line is None else line
    work = Work() if work is None else work
    events = _Events(arrivals, running, now)
    while True:
        came = list(events.come_by(now))
        for job in came:
            line.add(job)
        ended = list(events.ended_by(now))
        for job_id, ended_at in ended:
            holdings.end(job_id)
            line.end(job_id, ended_at)
            back = work.end(job_id, ended_at)
            if back is not None:
                line.add(back)
        if ended or not lazy or any(_has_chance(job, holdings, work, now) for job in came):
            decided = Pass(holdings, now, work.may_leave(now))
            starts = tuple(rule(decided, line.order(now)))
            line.keep(decided.heads)
            for start in starts:
                held_s = work.begin(line.start(start, now), start, now)
                events.will_end(start.job_id, math.inf if held_s is None else now + held_s)
            for head_id, victims in decided.preempted.items():
                for job_id in victims:
                    events.will_end(job_id, work.leave(job_id, head_id, now))
            yield Moment(now, starts, decided)
        later = events.next(awaits_ends=len(line) > 0 or work.to_the_end)
        if later is None:
            return
        now = later


class _Events:
    """What happens next."""

    def __init__(
        self,
        arrivals: Iterable[tuple[float, QueuedJob]],
        running: Iterable[RunningJob],
        now: float,
    ) -> None:
        self._coming = sorted(arrivals, key=lambda arrival: -arrival[0])
        self._ends: list[tuple[float, str]] = []
        self._end_of: dict[str, float] = {}
        for job in running:
            self.will_end(job.job_id, math.inf if job.ends_by is None else max(job.ends_by, now))

    def will_end(self, job_id: str, at: float) -> None:
        """The job gives its cards back then, or sooner if that was known before."""
        at = min(at, self._end_of.get(job_id, math.inf))
        if at < math.inf:
            self._end_of[job_id] = at
            heapq.heappush(self._ends, (at, job_id))

    def come_by(self, now: float) -> Iterator[QueuedJob]:
        """Jobs that have come."""
        while self._coming and self._coming[-1][0] <= now:
            yield self._coming.pop()[1]

    def ended_by(self, now: float) -> Iterator[tuple[str, float]]:
        """Jobs that have ended, and when."""
        while self._ends and self._ends[0][0] <= now:
            at, job_id = heapq.heappop(self._ends)
            if self._end_of.get(job_id) == at:  # else it was asked to leave sooner, and has
                del self._end_of[job_id]
                yield job_id, at

    def next(self, *, awaits_ends: bool) -> float | None:
        """When something happens again; None: nothing that matters to anybody."""
        if not self._coming and not (self._ends and awaits_ends):
            return None
        return min(time for time, _ in (*self._ends[:1], *self._coming[-1:]))


def _has_chance(job: QueuedJob, holdings: Holdings, work: Work, now: float) -> bool:
    """Whether a job that comes could start, or have others leave."""
    cards = holdings.kinds.get(job.kind)
    if cards is None or cards.free_total >= job.needs:
        return True
    return not job.preemptible and any(True for _ in work.may_leave(now))
