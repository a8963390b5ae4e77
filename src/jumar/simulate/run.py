"""A workload run through the scheduler, under one policy."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from jumar.jobs.scheduling.records import QueuedJob, RunningJob, Start
from jumar.jobs.scheduling.simulation import (
    Fair,
    FirstCome,
    Work,
    backfilling,
    simulate,
    strictly,
)
from jumar.jobs.scheduling.use import DAY_S, PastUse
from jumar.simulate.workload import TraceJob, Workload

GRACE_S = 40.0
_SAVES_IN_S = 10.0
"""How long a job needs to save and leave when it is asked to."""
_KIND = "npu"


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to decide."""

    name: str
    line: Callable[[], FirstCome | Fair]
    rule: Callable[..., list[Start]]
    preempts: bool = False


POLICIES: Mapping[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("jumar", lambda: Fair(PastUse(7.0 * DAY_S)), backfilling, preempts=True),
        Policy("easy", FirstCome, backfilling),
        Policy("fcfs", FirstCome, strictly),
    )
}


@dataclass(slots=True)
class Told:
    """What became of one job."""

    job: TraceJob
    waited_s: float = 0.0
    """In the line, before its first start and after each return."""
    held: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """From when to when it had its cards."""
    preempted: int = 0
    repeated_s: float = 0.0
    """Work done again since it was lost between checkpoint and preemption."""

    @property
    def ended(self) -> float:
        """When its cards were free for the last time."""
        return self.held[-1][1] if self.held else math.inf


@dataclass(frozen=True, slots=True)
class _Run:
    job: QueuedJob
    start: Start
    since: float
    leaves: bool = False


class Training(Work):
    """Jobs that train: for their time, in segments, saving now and then, leaving when asked."""

    to_the_end = True

    def __init__(
        self,
        workload: Workload,
        *,
        segment_s: float | None,
        save_every_s: float,
        preempts: bool,
    ) -> None:
        super().__init__()
        self.told = {job.job_id: Told(job) for job in workload.jobs}
        self._left = {job.job_id: job.runs_s for job in workload.jobs}
        self._since = {job.job_id: job.submitted for job in workload.jobs}
        self._segment_s = segment_s
        self._save_every_s = save_every_s
        self._preempts = preempts
        self._runs: dict[str, _Run] = {}
        self._preemptible: dict[str, _Run] = {}

    def arrivals(self) -> list[tuple[float, QueuedJob]]:
        """As the line gets them."""
        return [
            (told.job.submitted, self._queued(told.job, order))
            for order, told in enumerate(self.told.values())
        ]

    def _queued(self, job: TraceJob, order: int) -> QueuedJob:
        nodes = job.nodes or 1
        limit_s = job.limit_s
        if limit_s is not None and self._segment_s is not None:
            limit_s = min(limit_s, self._segment_s)
        return QueuedJob(
            job_id=job.job_id,
            user=job.user,
            kind=_KIND,
            count=job.cards // nodes,
            nodes=nodes,
            priority=100,
            order=order,
            time_limit_s=limit_s,
            grace_s=GRACE_S,
            preemptible=job.preemptible and self._preempts,
            since=job.submitted,
            in_line_since=job.submitted,
        )

    def begin(self, job: QueuedJob, start: Start, now: float) -> float:
        self.told[job.job_id].waited_s += now - self._since[job.job_id]
        run = _Run(job, start, now)
        self._runs[job.job_id] = run
        if job.preemptible:
            self._preemptible[job.job_id] = run
        left_s = self._left[job.job_id]
        return left_s if job.time_limit_s is None else min(left_s, job.time_limit_s)

    def end(self, job_id: str, now: float) -> QueuedJob | None:
        run = self._runs.pop(job_id)
        self._preemptible.pop(job_id, None)
        told = self.told[job_id]
        told.held.append((run.since, now))
        done_s = now - run.since
        if run.leaves and done_s < self._left[job_id]:
            kept_s = self._saved_s(done_s)
            told.repeated_s += done_s - kept_s
            done_s = kept_s
        self._left[job_id] -= done_s
        if self._left[job_id] <= 0.5:
            return None
        self._since[job_id] = now
        return replace(run.job, in_line_since=None)

    def may_leave(self, now: float) -> Iterable[RunningJob]:
        for run in self._preemptible.values():
            saved_s = self._saved_s(now - run.since)
            yield RunningJob(
                run.job.job_id,
                run.job.user,
                _KIND,
                run.start.cards,
                ends_by=None,
                since=run.since,
                preemptible=True,
                grace_s=GRACE_S,
                saved_at=run.since + saved_s if saved_s else None,
                preemptions=self.told[run.job.job_id].preempted,
                leaves=run.leaves,
            )

    def leave(self, job_id: str, head_id: str, now: float) -> float:
        self.told[job_id].preempted += 1
        run = self._runs[job_id]
        run = replace(run, job=replace(run.job, yields_to=head_id), leaves=True)
        self._runs[job_id] = self._preemptible[job_id] = run
        return now + _SAVES_IN_S

    def _saved_s(self, done_s: float) -> float:
        return done_s // self._save_every_s * self._save_every_s


def run_policy(
    workload: Workload,
    policy: Policy,
    *,
    nodes: int,
    cards_per_node: int,
    segment_s: float | None = None,
    save_every_s: float = 900.0,
) -> list[Told]:
    """Every job of the workload, as it fared."""
    pool = {_KIND: {f"node{n:05}": range(cards_per_node) for n in range(nodes)}}
    training = Training(
        workload, segment_s=segment_s, save_every_s=save_every_s, preempts=policy.preempts
    )
    for _ in simulate(
        training.arrivals(),
        pool,
        now=workload.jobs[0].submitted,
        user_limit=None,
        work=training,
        line=policy.line(),
        rule=policy.rule,
        lazy=True,
    ):
        pass
    return list(training.told.values())
