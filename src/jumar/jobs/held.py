"""The jobs that wait for other jobs, in memory: who waits for whom, and who has to be looked at."""

from jumar.jobs.dependencies import targets_of
from jumar.jobs.rows import JobRow


class HeldJobs:
    """Kept by the roster, under its lock."""

    def __init__(self) -> None:
        self._rows: dict[str, JobRow] = {}
        self._waiting_for: dict[str, dict[str, None]] = {}
        """By job or array: the jobs that wait for it, in the order in which they came."""
        self._in_array: dict[str, dict[str, None]] = {}
        """By array: its jobs that wait for a place in it."""
        self._due: dict[str, None] = {}

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._rows

    def hold(self, row: JobRow) -> None:
        """A job that waits; a new one is due, since what it waits for may be over already."""
        if row.id not in self._rows:
            self._due[row.id] = None
            for target in targets_of(row):
                self._waiting_for.setdefault(target, {})[row.id] = None
            if row.array_id is not None and row.array_limit is not None:
                self._in_array.setdefault(row.array_id, {})[row.id] = None
        self._rows[row.id] = row

    def release(self, job_id: str) -> None:
        """It waits no longer."""
        row = self._rows.pop(job_id)
        self._due.pop(job_id, None)
        for target in targets_of(row):
            self._drop(self._waiting_for, target, job_id)
        if row.array_id is not None:
            self._drop(self._in_array, row.array_id, job_id)

    @staticmethod
    def _drop(index: dict[str, dict[str, None]], name: str, job_id: str) -> None:
        names = index.get(name, {})
        names.pop(job_id, None)
        if not names:
            index.pop(name, None)

    def ended(self, row: JobRow) -> None:
        """Those who waited for this job are due, and the next one of its array."""
        self._due.update(self._waiting_for.get(row.id, {}))
        if row.array_id is not None:
            self._due.update(self._waiting_for.get(row.array_id, {}))
            for first in self._in_array.get(row.array_id, {}):
                self._due[first] = None
                break

    def is_awaited(self, job_id: str, array_id: str | None) -> bool:
        """Whether some job waits for it, or for its array."""
        return job_id in self._waiting_for or array_id in self._waiting_for

    def due(self) -> list[str]:
        """Those to look at now, in the order in which they came."""
        return sorted(self._due, key=lambda job_id: self._rows[job_id].seq)

    def looked_at(self, job_id: str) -> None:
        """Until something else happens."""
        self._due.pop(job_id, None)
