"""How long a job may outlive its time limit, or a request to stop, before the server kills it."""

import time
from dataclasses import replace

from jumar.engine.base import Observation
from jumar.jobs.roster import ActiveJob
from jumar.jobs.rows import JobRow
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState

OVERDUE_S = 30.0
"""How long after the end of all grace a job is given up: its own supervisor should have acted."""


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
