"""Whole runs of the scheduler: jobs come, start, end early or late, until the line is empty."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.jobs.scheduling.forecast import explain
from jumar.jobs.scheduling.records import Line, place_of
from jumar.jobs.scheduling.schedule import QueuedJob, RunningJob, Start, decide
from jumar.jobs.scheduling.simulation import Moment, Work, simulate

many = settings(max_examples=300, deadline=None)


@dataclass(frozen=True)
class Workload:
    pool: dict[str, dict[str, range]]
    arrivals: list[tuple[float, QueuedJob]]
    held_s: dict[str, float]
    """How long each job really holds its cards."""
    user_limit: int | None

    def moments(self) -> Iterator[Moment]:
        return simulate(
            self.arrivals, self.pool, now=0.0, user_limit=self.user_limit, work=Work(self.really)
        )

    def really(self, job: QueuedJob) -> float:
        return self.held_s[job.job_id]

    @property
    def jobs(self) -> dict[str, QueuedJob]:
        return {job.job_id: job for _, job in self.arrivals}


@st.composite
def workloads(
    draw: st.DrawFn, *, priorities: tuple[int, ...] = (100, 100, 200), limits: bool = True
) -> Workload:
    """Every job fits the pool and its user's limit, so every job must start one day."""
    pool = {
        "npu": {f"n{node}": range(4) for node in range(draw(st.integers(1, 3)))},
        "cpu": {"n0": range(3)},
    }
    arrivals: list[tuple[float, QueuedJob]] = []
    held_s: dict[str, float] = {}
    times = draw(st.lists(st.integers(0, 10), min_size=1, max_size=14))
    for order, time in enumerate(sorted(times)):
        kind = draw(st.sampled_from(["npu", "npu", "npu", "cpu"]))
        limit = draw(st.integers(1, 12) if limits else st.none() | st.integers(1, 12))
        job = QueuedJob(
            job_id=f"j{order}",
            user=draw(st.sampled_from(["ann", "bob"])),
            kind=kind,
            count=draw(st.integers(1, 3 if kind == "cpu" else 4)),
            nodes=draw(st.integers(1, len(pool[kind]))),
            priority=draw(st.sampled_from(priorities)),
            order=order,
            time_limit_s=None if limit is None else float(limit),
        )
        arrivals.append((float(time), job))
        held_s[job.job_id] = float(draw(st.integers(1, limit or 12)))
    user_limit = draw(st.none() | st.just(12))
    return Workload(pool, arrivals, held_s, user_limit)


@dataclass
class Step:
    now: float
    waiting: tuple[QueuedJob, ...]
    running: tuple[RunningJob, ...]
    starts: list[Start]


@dataclass
class Plain:
    """The obvious simulation: the pure function, asked anew at every moment."""

    load: Workload
    line: Line = field(default_factory=Line)
    running: dict[str, tuple[float, RunningJob]] = field(
        default_factory=dict[str, tuple[float, RunningJob]]
    )

    def steps(self) -> Iterator[Step]:
        times = {time for time, _ in self.load.arrivals} | {0.0}
        while times:
            now = min(times)
            times.remove(now)
            for time, job in self.load.arrivals:
                if time == now:
                    self.line.add(job)
            self.running = {k: held for k, held in self.running.items() if held[0] > now}
            waiting, running = tuple(self.line), tuple(job for _, job in self.running.values())
            limit = self.load.user_limit
            starts = decide(waiting, self.load.pool, running, now=now, user_limit=limit).starts
            times |= {self._start(start, now) for start in starts}
            yield Step(now, waiting, running, starts)

    def _start(self, start: Start, now: float) -> float:
        job = self.line.remove(start.job_id)
        ends_by = None if job.longest_s is None else now + job.longest_s
        end = now + self.load.held_s[job.job_id]
        run = RunningJob(job.job_id, job.user, job.kind, start.cards, ends_by)
        self.running[job.job_id] = (end, run)
        return end


@many
@given(workloads(limits=False))
def test_the_simulation_is_the_pure_function_asked_at_every_moment(load: Workload) -> None:
    plain = [(step.now, start) for step in Plain(load).steps() for start in step.starts]
    simulated = [(moment.now, start) for moment in load.moments() for start in moment.starts]
    assert simulated == plain


@many
@given(workloads(limits=False))
def test_cards_and_user_limits_hold_at_every_moment(load: Workload) -> None:
    for step in Plain(load).steps():
        held = [(job.kind, card) for job in step.running for card in job.cards]
        assert len(set(held)) == len(held)
        used = {"ann": 0, "bob": 0}
        for job in step.running:
            used[job.user] += len(job.cards)
        assert load.user_limit is None or max(used.values()) <= load.user_limit


@many
@given(workloads(limits=False))
def test_every_job_of_a_finite_workload_starts(load: Workload) -> None:
    started = [start.job_id for moment in load.moments() for start in moment.starts]
    assert sorted(started) == sorted(load.jobs)


@many
@given(workloads(limits=False))
def test_what_a_head_was_promised_is_kept_unless_a_job_ahead_takes_it(load: Workload) -> None:
    jobs = load.jobs
    promised: dict[str, tuple[QueuedJob, float]] = {}
    for moment in load.moments():
        started = {start.job_id for start in moment.starts}
        decided = moment.decided
        for kind, (head, at) in list(promised.items()):
            if head.job_id in started:
                assert moment.now <= at
                del promised[kind]
                continue
            # A job of the same user that came ahead of it and is over the limit counts too.
            waits = [*decided.heads.values(), *decided.held.values()]
            moved_up = {*started, *(other.job_id for other in waits)}
            if any(place_of(jobs[other]) < place_of(head) for other in moved_up):
                del promised[kind]
                continue
            if decided.holdings.free_total or kind in decided.heads:
                assert decided.heads[kind] is head
            assert moment.now < at
        for kind, head in decided.heads.items():
            at = decided.reservation(kind).at
            at = math.inf if at is None else at
            assert at <= promised.get(kind, (head, math.inf))[1]
            promised[kind] = (head, at)


@many
@given(workloads(priorities=(100,)))
def test_a_head_starts_when_it_would_with_nobody_behind_it(load: Workload) -> None:
    """All jobs use their whole limit; a head is then never delayed at all."""
    load = Workload(
        load.pool, load.arrivals, {j.job_id: j.time_limit_s or 0 for _, j in load.arrivals}, None
    )
    starts_at = {start.job_id: m.now for m in load.moments() for start in m.starts}
    heads = [(m.now, head) for m in load.moments() for head in m.decided.heads.values()]
    steps = {step.now: step for step in Plain(load).steps()}
    for now, head in heads:
        step = steps[now]
        begun = {start.job_id for start in step.starts}
        ahead = [job for job in step.waiting if place_of(job) < place_of(head)]
        assert all(job.job_id in begun or job.kind != head.kind for job in ahead)
        waits = explain(head, step.waiting, load.pool, step.running, now=now, user_limit=None)
        alone = waits.expected_start
        assert starts_at[head.job_id] == alone


def test_a_large_job_starts_in_an_endless_stream_of_small_ones() -> None:
    # Five of eight cards are busy at any time, so eight are never free by themselves.
    def small(order: int, limit: float | None) -> QueuedJob:
        return QueuedJob(f"s{order}", "bob", "npu", 1, 1, 100, order, limit)

    for limit in (None, 10.0):
        stream = [(float(time), small(time, limit)) for time in range(0, 1000, 2)]
        big = QueuedJob("big", "ann", "npu", 8, 1, 100, 51, None)
        moments = simulate(
            [*stream, (51.0, big)],
            {"npu": {"n": range(8)}},
            now=0.0,
            user_limit=None,
            work=Work(lambda job: 10.0),
        )
        start = next(m.now for m in moments if any(s.job_id == "big" for s in m.starts))
        assert start <= 60.0


@many
@given(workloads(priorities=(100,)))
def test_a_forecast_comes_true_when_all_jobs_use_their_limit_and_nobody_else_comes(
    load: Workload,
) -> None:
    first = next(Plain(load).steps())
    at_once = [(0.0, job) for job in first.waiting]
    for last in range(len(at_once)):
        moments = simulate(at_once[: last + 1], load.pool, now=0.0, user_limit=load.user_limit)
        job = at_once[last][1]
        real = next(m.now for m in moments if any(s.job_id == job.job_id for s in m.starts))
        limit = load.user_limit
        waits = explain(job, first.waiting, load.pool, (), now=0.0, user_limit=limit)
        assert waits.expected_start == real
