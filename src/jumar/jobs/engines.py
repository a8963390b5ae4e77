"""All places where a server's jobs run: each attempt goes to its own. What an engine is asked to do it may refuse, or be
out of reach: then it is asked again."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from jumar.database.complaints import Complaints
from jumar.engine.base import Attempt, Engine, HasCards, HasImages, HasQueue, Observation
from jumar.errors import BadInput, EngineFailed, JumarError
from jumar.jobs.lane import Lane
from jumar.jobs.observed import refused
from jumar.jobs.patience import QUEUE_LIMIT_S, START_LIMIT_S, Hindered
from jumar.jobs.roster import ActiveJob
from jumar.jobs.rows import JobRow
from jumar.spec.causes import Cause
from jumar.spec.records import ImageRecord
from jumar.spec.states import AttemptState, JobState

log = logging.getLogger(__name__)
OVERDUE_S = 30.0
"""How long after the end of all grace a job is given up: its own supervisor should have acted."""


class Engines:
    """Thread-safe. At most one has cards, which jumar's scheduler hands out."""

    def __init__(self, *engines: Engine) -> None:
        """The first is for jobs that name none."""
        self._by_name = {engine.name: engine for engine in engines}
        self.default = engines[0]
        placing = [engine for engine in engines if isinstance(engine, HasCards)]
        if len(placing) > 1 or len(self._by_name) < len(engines):
            raise ValueError("two engines for the same jobs")
        self.placing: Engine | None = placing[0] if placing else None
        # One that is alone keeps nobody waiting but its own jobs.
        apart = engines if len(engines) > 1 else ()
        self._lanes = {
            engine.name: Lane(engine) for engine in apart if isinstance(engine, HasQueue)
        }

    @property
    def with_queues(self) -> tuple[str, ...]:
        """Those whose own schedulers place jobs."""
        return tuple(name for name, one in self._by_name.items() if one is not self.placing)

    @property
    def names(self) -> tuple[str, ...]:
        """Those that a job may name; the first is the default."""
        return tuple(self._by_name)

    def listen(self, on_news: Callable[[str], None]) -> None:
        """`on_news` hears of jobs that should be looked at."""
        for lane in self._lanes.values():
            lane.on_news = on_news

    def named(self, name: str | None) -> Engine:
        """The one that a job asks for; BadInput where there is none."""
        found = self.default if name is None else self._by_name.get(name)
        if found is None:
            raise BadInput(
                f"this server does not run jobs on {name!r}",
                hint=f"it has: {', '.join(self.names)}; an administrator adds others to JUMAR_ENGINE",
            )
        return found

    def of(self, engine: str) -> Engine:
        """The one of a job that was taken once; EngineFailed where the server has lost it since."""
        found = self._by_name.get(engine)
        if found is None:
            raise EngineFailed(
                f"the server has no engine {engine!r} any more", hint="add it to JUMAR_ENGINE again"
            )
        return found

    def prepare(self) -> None:
        """Before the first job."""
        for engine in self._by_name.values():
            engine.prepare()

    def images(self) -> tuple[ImageRecord, ...]:
        """Those that jobs may name, in any of them."""
        having = [one for one in self._by_name.values() if isinstance(one, HasImages)]
        return tuple(image for one in having for image in one.images())

    def start(self, attempt: Attempt) -> None:
        """As `Engine.start`."""
        self._way(attempt).start(attempt)

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """As `Engine.observe`; nothing of those whose engine the server has lost."""
        parted: dict[str, list[Attempt]] = {}
        for attempt in attempts:
            parted.setdefault(attempt.engine, []).append(attempt)
        return [
            seen
            for name, some in parted.items()
            if name in self._by_name
            for seen in self._way(some[0]).observe(some)
        ]

    def stop(self, attempt: Attempt, why: AttemptState) -> None:
        """As `Engine.stop`."""
        self._way(attempt).stop(attempt, why)

    def kill(self, attempt: Attempt) -> None:
        """As `Engine.kill`."""
        self._way(attempt).kill(attempt)

    def close(self) -> None:
        """Let go of all. Running attempts go on."""
        for lane in self._lanes.values():
            lane.close()
        for engine in self._by_name.values():
            engine.close()

    def _way(self, attempt: Attempt) -> Engine | Lane:
        return self._lanes.get(attempt.engine) or self.of(attempt.engine)


class Patience:
    """With jobs that should have ended: one that outlives its time limit, or a request to stop, is killed. For one
    thread."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, int, bool], float] = {}
        """Since when attempts are seen to run, or to be asked to stop."""
        self._killed: set[tuple[str, int]] = set()

    def is_over(self, job: ActiveJob, *, is_stopping: bool) -> bool:
        """Whether it has outlived its limit, or a stop, by more than it may: something keeps its
        supervisor from ending it."""
        limit_s = 0.0 if is_stopping else job.row.spec.time_limit
        if limit_s is None:
            return False
        key, now = (job.row.id, job.attempt.number, is_stopping), time.monotonic()
        if job.is_pending and not is_stopping:
            # Its limit runs from its start there.
            self._since.pop(key, None)
            return False
        # Of this life only: how long it ran before, a clock that was set may tell wrongly.
        since = self._since.setdefault(key, now)
        return now - since > limit_s + job.grace_s + OVERDUE_S

    def lost(self, job: ActiveJob) -> None:
        """The server kills it."""
        self._killed.add((job.row.id, job.attempt.number))

    def corrected(self, seen: Observation) -> Observation:
        """The engine sees that it was killed, not by whom."""
        if seen.state is AttemptState.LOST and (seen.job_id, seen.number) in self._killed:
            return replace(seen, cause=Cause.KILLED_BY_SERVER, values={}, reason=None)
        return seen

    def forget(self, row: JobRow) -> None:
        """The job's attempt is over."""
        for is_stopping in (False, True):
            self._since.pop((row.id, row.attempt, is_stopping), None)
        self._killed.discard((row.id, row.attempt))


class Deeds:
    """What the engines are asked to do: trouble with one job costs no other. Used by the conductor's thread alone."""

    def __init__(self, engines: Engines, on_seen: Callable[[Observation], None]) -> None:
        """`on_seen` is told of an attempt that will never start."""
        self._engines = engines
        has_cards = engines.placing is not None
        self._hindered = Hindered(START_LIMIT_S if has_cards else QUEUE_LIMIT_S)
        self._on_seen = on_seen
        self.unstarted: set[str] = set()
        """Jobs that are written down as starting and may never have reached the engine."""
        self._patience = Patience()
        self._complaints = Complaints(log)

    def clear(self) -> None:
        """Other jobs are there now."""
        self.unstarted.clear()
        self._hindered.troubles.clear()

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """How the attempts stand: what the engines see, and what is only known here."""
        seen = self._engines.observe(attempts)
        if self._hindered.troubles:
            seen = map(self._hindered.corrected, seen)
        return list(map(self._patience.corrected, seen))

    def urge(self, job: ActiveJob, *, is_stopping: bool, is_tick: bool) -> None:
        """Ask for what has not been done yet."""
        wanted = AttemptState.STOPPED if is_stopping else AttemptState.PREEMPTED
        if is_stopping or job.leaves:
            unbegun = self._hindered.unbegun(job.attempt, wanted)
            if unbegun is not None:
                # Its files could not be written, nor could one be that asks it to end.
                self._on_seen(unbegun)
                return
            self._stop(job.attempt, wanted)
        if is_tick and job.row.id in self.unstarted:
            self.start(job.attempt)
        if is_tick and self._patience.is_over(job, is_stopping=is_stopping or job.leaves):
            self._patience.lost(job)
            # Said once, however long the kernel takes to end it.
            self._complaints.say(f"job {job.row.id}", "it should have ended long ago and is killed")
            self._ask(self._engines.kill, job.attempt, "the end")

    def start(self, attempt: Attempt) -> None:
        """Starting twice is starting once."""
        what = f"the start of job {attempt.job_id}"
        try:
            self._engines.start(attempt)
        except (JumarError, OSError) as error:
            if isinstance(error, OSError) or error.is_passing:
                # It is asked again with the next tick, and told with the next look.
                self._complaints.say(what, error)
                self.unstarted.add(attempt.job_id)
                self._hindered.met(attempt, error)
                if self._hindered.is_given_up(attempt):
                    # Where it cannot be known whether the engine has it after all.
                    self._ask(self._engines.kill, attempt, "the end")
            else:
                self._on_seen(refused(attempt, error))
        else:
            if self._complaints.said:
                self._complaints.over(what)
            self.unstarted.discard(attempt.job_id)
            self._hindered.troubles.pop((attempt.job_id, attempt.number), None)

    def preempt(self, attempt: Attempt) -> None:
        """Have it end to make room."""
        self._stop(attempt, AttemptState.PREEMPTED)

    def _stop(self, attempt: Attempt, why: AttemptState) -> None:
        self._ask(partial(self._engines.stop, why=why), attempt, "the stop")

    def _ask(self, deed: Callable[[Attempt], None], attempt: Attempt, name: str) -> None:
        what = f"{name} of job {attempt.job_id}"
        try:
            deed(attempt)
        except (JumarError, OSError) as error:
            # It is asked again in the next pass; the other jobs must not wait for that.
            self._complaints.say(what, error)
        else:
            self._complaints.over(what)

    def forget(self, row: JobRow) -> None:
        """Something of the job's attempt was written down: the engine has it, or it is over."""
        key = row.id, row.attempt
        if row.state is JobState.STARTING and key in self._hindered.troubles:
            # What was written down is only why it has not begun.
            return
        self.unstarted.discard(row.id)
        self._hindered.troubles.pop(key, None)
        if not row.state.is_active:
            self._patience.forget(row)
