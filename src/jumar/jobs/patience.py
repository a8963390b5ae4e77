"""How long the server waits: for a start that does not work, and for a job that should have ended.

A start is tried again, told on the job meanwhile, and given up in the end. A job that outlives its time limit, or
a request to stop, is killed."""

import time
from dataclasses import dataclass, replace

from jumar.engine.base import Attempt, Observation, StartHindered
from jumar.jobs.roster import ActiveJob
from jumar.jobs.rows import JobRow
from jumar.launch.jobdir.trouble import trouble_with
from jumar.spec.causes import Cause, Values, known
from jumar.spec.states import AttemptState
from jumar.spec.text import storable

OVERDUE_S = 30.0
"""How long after the end of all grace a job is given up: its own supervisor should have acted."""
START_LIMIT_S = 600.0
"""So long a start is tried where the attempt holds cards meanwhile."""
QUEUE_LIMIT_S = 86400.0
"""And so long where the cluster of a queue does not take it, which holds none."""
_MOST_WORDS = 500


class Patience:
    """With all jobs that are under way; for one thread."""

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


@dataclass
class _Trouble:
    since: float
    cause: Cause
    values: Values
    is_sure: bool
    """Whether the engine knows that it was not started."""
    is_over: bool
    """Whether it is given up: by a try that failed, never between two of them."""


class Hindered:
    """For one thread. What is known of an attempt ends with its start, or with its job."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._troubles: dict[tuple[str, int], _Trouble] = {}

    def met(self, attempt: Attempt, error: Exception) -> None:
        """Its start did not work."""
        cause, values = _why(attempt, error)
        before = self._troubles.get((attempt.job_id, attempt.number))
        now = time.monotonic()
        since = now if before is None else before.since
        self._troubles[attempt.job_id, attempt.number] = _Trouble(
            since, cause, values, isinstance(error, StartHindered), now - since > self._limit_s
        )

    def over(self, job_id: str, number: int) -> None:
        """It works, or nobody wants it any more."""
        self._troubles.pop((job_id, number), None)

    def clear(self) -> None:
        """Other jobs are there now."""
        self._troubles.clear()

    def is_given_up(self, attempt: Attempt) -> bool:
        """Whether it was tried for long enough."""
        found = self._troubles.get((attempt.job_id, attempt.number))
        return found is not None and found.is_over

    def is_hindered(self, job_id: str, number: int) -> bool:
        """Whether the last try did not work."""
        return (job_id, number) in self._troubles

    def unbegun(self, attempt: Attempt, state: AttemptState) -> Observation | None:
        """The end of an attempt that somebody asks to end before it could begin. None where there may
        be something to ask: an engine that did not answer, or a start that works."""
        found = self._troubles.get((attempt.job_id, attempt.number))
        if found is None or not found.is_sure:
            return None
        return Observation(job_id=attempt.job_id, number=attempt.number, state=state)

    def corrected(self, seen: Observation) -> Observation:
        """An engine sees only that nothing runs yet; here it is known why."""
        found = self._troubles.get((seen.job_id, seen.number))
        if found is None or seen.state is not AttemptState.STARTING or seen.cause is not None:
            return seen
        if found.is_over:
            # It waits no longer.
            cause = Cause.START_FAILS if found.cause is Cause.PENDING else found.cause
            return replace(
                seen, state=AttemptState.FAILED, cause=cause, values=found.values, reason=None
            )
        values = {**found.values, "limit_s": f"{self._limit_s:g}"}
        return replace(seen, cause=found.cause, values=values, reason=None)


def _why(attempt: Attempt, error: Exception) -> tuple[Cause, Values]:
    if isinstance(error, OSError):
        cause, _, values = trouble_with(error, str(attempt.directory))
        found, said = known(cause, values)
    elif isinstance(error, StartHindered):
        found, said = error.cause, error.values
    else:
        found, said = None, {}
    if found is None:
        return Cause.START_FAILS, {"error": storable(str(error))[:_MOST_WORDS]}
    return found, said
