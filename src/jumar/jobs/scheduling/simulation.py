"""The scheduler run ahead in time, with no cards, no processes and no clock.

Used to foresee when a job starts, and to try the scheduler at sizes no machine here has: it is
part of the package because forecasts need it, and the tests and benchmarks use the same one."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from jumar.jobs.scheduling.line import Line
from jumar.jobs.scheduling.schedule import Holdings, Pass, Pool, QueuedJob, RunningJob, Start


@dataclass(frozen=True, slots=True)
class Moment:
    """One pass of the scheduler at one time."""

    now: float
    starts: tuple[Start, ...]
    decided: Pass
    """The pass as it ended: its heads and what is kept for them. Good until the next moment."""


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
    holds_s: Callable[[QueuedJob], float | None] = whole_limit,
) -> Iterator[Moment]:
    """Pass after pass, at `now` and whenever a job comes or ends, until nothing more happens.

    Jobs that run already end at their `ends_by`; those that start hold their cards for `holds_s`,
    which must not be longer than they may, else the scheduler was promised what is not true."""
    running = tuple(running)
    holdings = Holdings(pool, running, user_limit=user_limit)
    coming = sorted(arrivals, key=lambda arrival: -arrival[0])
    line = Line()
    ends = [(max(job.ends_by, now), job.job_id) for job in running if job.ends_by is not None]
    heapq.heapify(ends)
    while True:
        while coming and coming[-1][0] <= now:
            line.add(coming.pop()[1])
        while ends and ends[0][0] <= now:
            holdings.end(heapq.heappop(ends)[1])
        decided = Pass(holdings, now)
        starts = tuple(decided.go_through(line))
        for start in starts:
            held_s = holds_s(line.remove(start.job_id))
            if held_s is not None:
                heapq.heappush(ends, (now + held_s, start.job_id))
        yield Moment(now, starts, decided)
        if not coming and not (ends and line):
            return
        now = min(time for time, _ in (*ends[:1], *coming[-1:]))
