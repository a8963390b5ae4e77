"""The jobs that are not over, in memory: who waits, in order, who holds which cards, who used what.

It mirrors the database: it is filled at start and changed only after a commit, in the order of
commits (`Database.write(…, then=…)`)."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from jumar.engine.base import Attempt, Engine, HasCards
from jumar.jobs.dependencies import HeldJobs
from jumar.jobs.rows import JobRow, after_limit_s, queued
from jumar.jobs.scheduling.cards import KindCards
from jumar.jobs.scheduling.records import (
    OwnLimits,
    Pool,
    QueuedJob,
    RunningJob,
    UserLimit,
    limit_of,
)
from jumar.jobs.scheduling.turns import FairLine, Shares, Turns
from jumar.jobs.scheduling.use import DAY_S, Owner, PastUse, use_now
from jumar.spec.causes import Cause
from jumar.spec.devices import CardHold, CardProcess, CardRef
from jumar.spec.states import JobState

_DEFAULT_HALF_LIFE_S = 7.0 * DAY_S


@dataclass(frozen=True, slots=True)
class ActiveJob:
    """A job with an attempt under way."""

    row: JobRow
    attempt: Attempt
    since: float
    began: float
    """`since` on the monotonic clock: a clock that is set moves no promise."""
    asked: float | None = None
    """When it was asked to end, on the monotonic clock."""

    @property
    def leaves(self) -> bool:
        """Whether it is asked to end, by a user or for another job."""
        return self.row.state is JobState.STOPPING or self.row.yields_to is not None

    @property
    def is_pending(self) -> bool:
        """Whether it waits in a queue of its engine, or its start does not work and is tried again: then its
        time limit does not run yet."""
        is_hindered = self.row.state is JobState.STARTING and "limit_s" in self.row.values
        return self.row.cause == Cause.PENDING or is_hindered

    @property
    def grace_s(self) -> float:
        """How long it may hold its cards after it was asked to end."""
        return self.row.spec.grace + after_limit_s(self.row)

    def ends_by(self) -> float | None:
        """When its cards are surely free again; None without a time limit."""
        limit_s = self.row.spec.time_limit
        ends: list[float] = []
        if limit_s is not None:
            ends.append(self.began + limit_s + after_limit_s(self.row))
        if self.asked is not None:
            ends.append(self.asked + self.grace_s)
        return time.time() + min(ends) - time.monotonic() if ends else None

    def running(self) -> RunningJob:
        """As the scheduler sees it."""
        return RunningJob(
            job_id=self.row.id,
            user=self.row.user,
            kind=self.row.spec.device.kind,
            cards=self.attempt.cards,
            ends_by=self.ends_by(),
            since=self.since,
            preemptible=self.row.spec.preemptible,
            grace_s=self.grace_s,
            saved_at=_saved_at(self.attempt) if self.row.spec.preemptible else None,
            preemptions=self.row.preemptions,
            leaves=self.leaves,
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the scheduler decides on."""

    queue: Turns
    handed_on: Turns
    """Those that wait to be given to schedulers of others."""
    running: tuple[RunningJob, ...]
    use: Mapping[Owner, float]
    """What everybody has used, as it counts now."""
    week: Mapping[Owner, float]
    """What jobs that have ended used today and in the six days before."""
    foreign: tuple[RunningJob, ...] = ()
    """Cards that are used without a job, each as if one ran there whose end nobody knows."""

    @property
    def holding(self) -> tuple[RunningJob, ...]:
        """All that cards are taken by."""
        return self.running + self.foreign


class Roster:
    """Thread-safe; every method is quick."""

    def __init__(
        self,
        pool: Pool,
        on_change: Callable[[], None],
        *,
        placing: str | None,
        elsewhere: Collection[str] = (),
        user_limit: int | None = None,
    ) -> None:
        """`pool`: the cards of the engine `placing`; `elsewhere`: engines that place jobs themselves.
        `on_change` is called when a job may start, or must be looked at; `user_limit`: how many devices
        one user may hold."""
        self._placing, self._elsewhere = placing, elsewhere
        self._usual_limit = user_limit
        self.user_limit: UserLimit = user_limit
        self._on_change = on_change
        self._lock = threading.Lock()
        self._kinds = {kind: KindCards(nodes, ()) for kind, nodes in pool.items()}
        self._line, self._handed_on = self._empty_lines()
        self._past = PastUse(_DEFAULT_HALF_LIFE_S)
        self._shares = Shares()
        self._held = HeldJobs()
        self._heads: dict[str, str] = {}
        """By kind: the job that cards are kept for."""
        self._waits_for: dict[str, dict[str, QueuedJob]] = {}
        """By job in the line: those that made room for it and do not start before it."""
        self._active: dict[str, ActiveJob] = {}
        self.foreign: Mapping[tuple[str, CardRef], tuple[CardProcess, ...]] = {}
        self.holds: Mapping[tuple[str, CardRef], CardHold] = {}
        """By kind and card: processes that belong to no job. Replaced, never changed."""
        # A kind may be gone from the machine while a job of an earlier life still holds it.
        self._all = {kind: sum(map(len, nodes.values())) for kind, nodes in pool.items()}
        self._free = Counter(self._all)
        self._version = 0
        self._chances = 0

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._version

    @property
    def chances(self) -> int:
        """Grows with every change after which some job might start that could not before.

        A job that comes can only make itself start, so where cards are short the line may
        grow by thousands without anyone going through it."""
        return self._chances

    def reflect(self, row: JobRow) -> None:
        """Show a job where its new state belongs."""
        device = row.spec.device
        with self._lock:
            self._version += 1
            matters = True
            if row.state.is_final:
                self._leave(row.id)
                if self._held.rows:
                    self._held.ended(row)
            elif row.is_held:
                self._held.hold(row)
            elif row.state is JobState.QUEUED:
                self._leave(row.id)
                if row.engine == self._placing:
                    self._line.add(self._yielding(queued(row)))
                    needs = device.count * row.spec.nodes
                    matters = self._free[device.kind] >= needs or self._may_have_others_leave(row)
                else:
                    self._handed_on.add(replace(queued(row), yields_to=None))
                self._chances += matters
            elif row.id in self._active:
                known = self._active[row.id]
                attempt = replace(known.attempt, handle=row.handle)
                self._active[row.id] = _asked(replace(known, row=row, attempt=attempt))
        if matters:
            self._on_change()

    def clear(self) -> None:
        """Know of no job."""
        with self._lock:
            self._line, self._handed_on = self._empty_lines()
            self._held = HeldJobs()
            self._waits_for = {}
            self._active = {}
            self._free = Counter(self._all)
            self._version += 1
            self._chances += 1

    def remember_use(self, past: PastUse) -> None:
        """What was used before this life."""
        with self._lock:
            self._past = past

    def keep(self, heads: Mapping[str, str]) -> None:
        """Cards are kept for these now; where a pass ended before it came to a head, the old one stays."""
        with self._lock:
            self._heads.update(heads)

    def share_out(self, shares: Shares) -> None:
        """Groups and shares have changed, and with them whose turn is next."""
        with self._lock:
            self._shares = shares
            self._chances += 1
        self._on_change()

    def occupy(self, foreign: Mapping[tuple[str, CardRef], tuple[CardProcess, ...]]) -> None:
        """Others than jobs use these cards now."""
        with self._lock:
            is_news = foreign.keys() != self.foreign.keys()
            self.foreign = foreign
            self._chances += is_news
            self._version += is_news
        if is_news:
            self._on_change()

    def allow(self, quotas: Mapping[str, int]) -> None:
        """These users may hold so many devices; all others what everybody may."""
        with self._lock:
            self.user_limit = OwnLimits(self._usual_limit, quotas) if quotas else self._usual_limit
            self._chances += 1
            self._version += 1
        self._on_change()

    def hold(self, holds: Mapping[tuple[str, CardRef], CardHold]) -> None:
        """Nobody is given these cards from now on."""
        with self._lock:
            self.holds = holds
            self._chances += 1
            self._version += 1
        self._on_change()

    def forget(self) -> None:
        """A job that was over is gone: lists have changed."""
        with self._lock:
            self._version += 1

    def activate(self, row: JobRow, attempt: Attempt, since: float) -> None:
        """Move a job from the line to the cards it was given."""
        with self._lock:
            self._version += 1
            self._leave(row.id)
            began = time.monotonic() - max(0.0, time.time() - since)
            self._active[row.id] = _asked(ActiveJob(row, attempt, since, began))
            self._free[row.spec.device.kind] -= len(attempt.cards)

    def _leave(self, job_id: str) -> None:
        if job_id in self._held.rows:
            self._held.release(job_id)
        elif job_id in self._line:
            self._line.remove(job_id)
            for job in self._waits_for.pop(job_id, {}).values():
                if job.job_id in self._line:
                    self._line.add(replace(job, yields_to=None))
            self._chances += 1
        elif job_id in self._handed_on:
            self._handed_on.remove(job_id)
            self._chances += 1
        elif job_id in self._active:
            job = self._active.pop(job_id)
            kind, cards = job.row.spec.device.kind, len(job.attempt.cards)
            self._free[kind] += cards
            self._past.add((kind, job.row.user), cards, job.since, time.time())
            self._chances += 1

    def _may_have_others_leave(self, row: JobRow) -> bool:
        kind = row.spec.device.kind
        return not row.spec.preemptible and any(
            job.row.spec.preemptible and job.row.spec.device.kind == kind
            for job in self._active.values()
        )

    def _yielding(self, job: QueuedJob) -> QueuedJob:
        if job.yields_to is None or job.yields_to not in self._line:
            return replace(job, yields_to=None)
        self._waits_for.setdefault(job.yields_to, {})[job.job_id] = job
        return job

    def due(self) -> list[str]:
        """Jobs that wait for others, where that may be over."""
        with self._lock:
            return self._held.due() if self._held.rows else []

    def looked_at(self, row: JobRow) -> None:
        """Show what a look at a job that waits for others came to."""
        with self._lock:
            self._held.looked_at(row.id)
        if not row.is_held:
            self.reflect(row)

    def is_awaited(self, job_id: str, array_id: str | None) -> bool:
        """Whether some job waits for it, or for its array."""
        with self._lock:
            return self._held.is_awaited(job_id, array_id)

    def waiting(self, row: JobRow) -> QueuedJob:
        """A job as it stands in the line, where it may yield to another; else as it would."""
        with self._lock:
            return self._line.get(row.id) or replace(queued(row), yields_to=None)

    def kinds_of(self, job_ids: Iterable[str]) -> set[str]:
        """The kinds of cards that these jobs of the line want."""
        with self._lock:
            found = (self._line.get(job_id) for job_id in job_ids)
            return {job.kind for job in found if job is not None}

    def is_active(self, job_id: str) -> bool:
        """Whether the job holds cards."""
        with self._lock:
            return job_id in self._active

    def active_row(self, job_id: str) -> JobRow | None:
        """A job that holds cards, as it was last written down; None for every other.

        Without the lock: who holds that may be looking at a disk, and an event loop asks this."""
        job = self._active.get(job_id)
        return None if job is None else job.row

    def active(self) -> list[ActiveJob]:
        """All that hold cards."""
        with self._lock:
            return list(self._active.values())

    def snapshot(self, now: float) -> Snapshot:
        """The line and the running jobs at one moment."""
        with self._lock:
            running = tuple(
                job.running() for job in self._active.values() if job.row.engine == self._placing
            )
            use = use_now(self._past, running, now)
            return Snapshot(
                queue=self._line.turns(use, self._shares, dict(self._heads), now=now),
                handed_on=self._handed_on.turns(use, self._shares, now=now),
                running=running,
                use=use,
                week={owner: self._past.this_week(owner, now) for owner in use},
                foreign=self._foreign_jobs(running),
            )

    def _foreign_jobs(self, running: Iterable[RunningJob]) -> tuple[RunningJob, ...]:
        held = {(job.kind, card) for job in running for card in job.cards}
        return tuple(
            RunningJob(f"foreign:{kind}:{card.node}:{card.id}", "", kind, (card,), ends_by=None)
            for kind, card in {**self.foreign, **self.holds}
            if (kind, card) not in held
        )

    def _empty_lines(self) -> tuple[FairLine, FairLine]:
        elsewhere = FairLine(lambda job: job.engine in self._elsewhere)
        return FairLine(self._can_ever_start), elsewhere

    def _can_ever_start(self, job: QueuedJob) -> bool:
        limit = limit_of(self.user_limit, job.user)
        if limit is not None and job.needs > limit:
            return False
        cards = self._kinds.get(job.kind)
        return cards is not None and cards.could_ever_hold(job.count, job.nodes)


def _asked(job: ActiveJob) -> ActiveJob:
    return replace(job, asked=time.monotonic()) if job.leaves and job.asked is None else job


def _saved_at(attempt: Attempt) -> float | None:
    """When something was last saved in the job's folder of checkpoints; None: nobody can tell."""
    try:
        with os.scandir(attempt.directory / "ckpt") as entries:
            return max((entry.stat().st_mtime for entry in entries), default=None)
    except OSError:
        return None


def pool_of(engine: Engine | None) -> Pool:
    """The cards to hand out; none where all engines have queues of their own."""
    if not isinstance(engine, HasCards):
        return {}
    kinds: dict[str, dict[str, tuple[int, ...]]] = {}
    for card in engine.cards():
        nodes = kinds.setdefault(card.kind, {})
        nodes[card.node] = (*nodes.get(card.node, ()), card.id)
    return kinds
