"""What the engine is asked to do. It may refuse or be out of reach: then it is asked again."""

import logging
from collections.abc import Callable
from functools import partial

from jumar.database.complaints import Complaints
from jumar.engine.base import Attempt, Observation
from jumar.errors import JumarError
from jumar.jobs.engines import Engines
from jumar.jobs.observed import refused
from jumar.jobs.patience import QUEUE_LIMIT_S, START_LIMIT_S, Hindered, Patience
from jumar.jobs.roster import ActiveJob
from jumar.jobs.rows import JobRow
from jumar.spec.states import AttemptState, JobState

log = logging.getLogger(__name__)


class Deeds:
    """Trouble with one job costs no other. Used by the conductor's thread alone."""

    def __init__(self, engines: Engines, on_seen: Callable[[Observation], None]) -> None:
        """`on_seen` is told of an attempt that will never start."""
        self._engines = engines
        has_cards = engines.placing is not None
        self.hindered = Hindered(START_LIMIT_S if has_cards else QUEUE_LIMIT_S)
        self._on_seen = on_seen
        self.unstarted: set[str] = set()
        """Jobs that are written down as starting and may never have reached the engine."""
        self.patience = Patience()
        self._complaints = Complaints(log)

    def urge(self, job: ActiveJob, *, is_stopping: bool, is_tick: bool) -> None:
        """Ask for what has not been done yet."""
        wanted = AttemptState.STOPPED if is_stopping else AttemptState.PREEMPTED
        if is_stopping or job.leaves:
            unbegun = self.hindered.unbegun(job.attempt, wanted)
            if unbegun is not None:
                # Its files could not be written, nor could one be that asks it to end.
                self._on_seen(unbegun)
                return
            self._stop(job.attempt, wanted)
        if is_tick and job.row.id in self.unstarted:
            self.start(job.attempt)
        if is_tick and self.patience.is_over(job, is_stopping=is_stopping or job.leaves):
            self.patience.lost(job)
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
                self.hindered.met(attempt, error)
                if self.hindered.is_given_up(attempt):
                    # Where it cannot be known whether the engine has it after all.
                    self._ask(self._engines.kill, attempt, "the end")
            else:
                self._on_seen(refused(attempt, error))
        else:
            self._complaints.over(what)
            self.unstarted.discard(attempt.job_id)
            self.hindered.over(attempt.job_id, attempt.number)

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
        if row.state is JobState.STARTING and self.hindered.is_hindered(row.id, row.attempt):
            # What was written down is only why it has not begun.
            return
        self.unstarted.discard(row.id)
        self.hindered.over(row.id, row.attempt)
        if not row.state.is_active:
            self.patience.forget(row)
