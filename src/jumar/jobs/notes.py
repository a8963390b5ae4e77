"""What was seen of attempts, written down one by one: what cannot be costs its own job, and no other."""

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from jumar.database.access import Database
from jumar.database.complaints import Complaints
from jumar.engine.base import Observation
from jumar.errors import JumarError
from jumar.jobs import observed
from jumar.jobs.roster import Roster
from jumar.jobs.rows import JobRow, because
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.news import Journal
from jumar.spec.causes import Cause

log = logging.getLogger(__name__)
_ASIDE_S = 60.0


class Notes:
    """Used by the conductor's thread alone."""

    def __init__(
        self,
        database: Database,
        roster: Roster,
        folder: Path,
        on_written: Callable[[JobRow], None],
    ) -> None:
        """`folder`: of all job directories."""
        self._database = database
        self._roster = roster
        self._folder = folder
        self._on_written = on_written
        self._set_aside: dict[str, float] = {}
        """Jobs whose state cannot be written down, and when that is tried again."""
        self._complaints = Complaints(log)

    def takes(self, job_id: str) -> bool:
        """Whether it makes sense to look at the job now."""
        return self._set_aside.get(job_id, 0.0) <= time.monotonic()

    def write(self, news: Iterable[Observation]) -> None:
        """Write down what was seen."""
        news, now = list(news), time.time()
        changes = [partial(observed.apply_observation, seen=seen, now=now) for seen in news]
        outcomes = self._database.write_each(changes, then=self._roster.reflect)
        for seen, outcome in zip(news, outcomes, strict=True):
            if isinstance(outcome, JobRow):
                self._written(outcome)
            elif isinstance(outcome, JumarError) and outcome.is_passing:
                self._complaints.say(f"the state of job {seen.job_id}", outcome)
            else:
                self._put_aside(seen, outcome)

    def _written(self, row: JobRow) -> None:
        self._complaints.over(f"the state of job {row.id}")
        self._set_aside.pop(row.id, None)
        log.info("job %s is %s", row.id, row.state)
        self._on_written(row)

    def _put_aside(self, seen: Observation, error: Exception) -> None:
        """Write down the bare state; where even that fails, leave the job alone for a while."""
        values = {"error": type(error).__name__}
        why = because(Cause.SET_ASIDE, values)
        log.error("job %s: %s: %s", seen.job_id, why["reason"], error)
        self._set_aside[seen.job_id] = time.monotonic() + _ASIDE_S
        Journal(JobDir(str(self._folder / seen.job_id), seen.number), seen.job_id, None).add(
            "set-aside", words=why["reason"]
        )
        bare = Observation(
            job_id=seen.job_id,
            number=seen.number,
            state=seen.state,
            cause=Cause.SET_ASIDE,
            values=values,
        )
        outcome = self._database.write_each(
            [partial(observed.apply_observation, seen=bare, now=time.time())],
            then=self._roster.reflect,
        )[0]
        if isinstance(outcome, JobRow):
            self._written(outcome)
