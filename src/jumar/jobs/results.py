"""Results that could not be uploaded when their job ended: looked after until they have arrived."""

import logging
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from jumar.database.complaints import Complaints
from jumar.engine.base import Attempt, CarriesData
from jumar.errors import JumarError
from jumar.jobs.engines import Engines
from jumar.jobs.rows import JobRow

log = logging.getLogger(__name__)
RESEND_EVERY_S = 300.0
"""A store that was away is asked again so often, without anybody saying so."""


class Results:
    """Which jobs have some; thread-safe."""

    def __init__(self, engines: Engines, folder: Path) -> None:
        self._engines = engines
        self._folder = folder
        self._complaints = Complaints(log)
        self._lock = threading.Lock()
        self.waiting: dict[str, tuple[Attempt, float]] = {}
        """By job: its last attempt, and when they are sent again."""

    def watch(self, rows: Iterable[JobRow], *, soon: bool = False) -> None:
        """Look after these from now on; `soon`: whoever tried last is not of this life."""
        due = time.monotonic() + (0.0 if soon else RESEND_EVERY_S)
        with self._lock:
            for row in rows:
                self.waiting[row.id] = (last_attempt(row, self._folder / row.id), due)

    def look(self) -> list[str]:
        """The jobs whose results have arrived meanwhile; sends others again when it is time."""
        with self._lock:
            waiting = list(self.waiting.values())
        return [attempt.job_id for attempt, due in waiting if self._has_arrived(attempt, due)]

    def clear(self) -> None:
        """Look after none."""
        with self._lock:
            self.waiting.clear()

    def forget(self, job_ids: Iterable[str]) -> None:
        """It is written down that these have arrived."""
        with self._lock:
            for job_id in job_ids:
                self.waiting.pop(job_id, None)

    def _has_arrived(self, attempt: Attempt, due: float) -> bool:
        try:
            engine = self._engines.of(attempt.engine)
            if not isinstance(engine, CarriesData):
                return True
            record = engine.staging(attempt)
            if record is None or not record.has_unsent:
                return True
            if time.monotonic() >= due:
                with self._lock:
                    next_due = time.monotonic() + RESEND_EVERY_S
                    self.waiting[attempt.job_id] = (attempt, next_due)
                engine.send_results(attempt)
        except (JumarError, OSError) as error:
            self._complaints.say(f"the results of job {attempt.job_id}", error)
        return False


def last_attempt(row: JobRow, directory: Path) -> Attempt:
    """The last attempt of a job, as far as its files need it."""
    return Attempt(
        job_id=row.id,
        number=row.attempt,
        user=row.user,
        spec=row.spec,
        directory=directory,
        cards=(),
        engine=row.engine,
    )
