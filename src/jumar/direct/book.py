"""The jobs of a home that were handed to Slurm directly, as their folders and its queue tell of them."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jumar.engine.base import Attempt
from jumar.engine.shared.jobfiles import SharedFiles
from jumar.engine.slurm.asking import Row, Slurm
from jumar.engine.slurm.engine import SlurmEngine
from jumar.engine.slurm.observing import newest
from jumar.errors import EngineFailed, JobNotFound
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.safefile import Unusable, read_object
from jumar.launch.slurm.alone import next_of, submit_again
from jumar.launch.slurm.batch import files_of
from jumar.spec.causes import Cause
from jumar.spec.job import JobSpec
from jumar.spec.records import AttemptRecord, JobRecord
from jumar.spec.states import AttemptState, JobState

_ENDS = {
    AttemptState.SUCCEEDED: JobState.SUCCEEDED,
    AttemptState.FAILED: JobState.FAILED,
    AttemptState.LOST: JobState.LOST,
    AttemptState.TIMED_OUT: JobState.TIMED_OUT,
}
_WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD"})
_PATIENCE_S = 60.0
"""A job that is due and that Slurm does not know is submitted again after so long, not before: its batch
step may be about to."""


@dataclass(frozen=True, slots=True)
class _Queue:
    """What Slurm says of our jobs; None while it does not answer."""

    rows: Mapping[str, Row] | None

    def row(self, job_id: str) -> Row | None:
        return None if self.rows is None else self.rows.get(job_id)


class Book:
    """All jobs of one home; holds nothing between calls."""

    def __init__(
        self,
        folder: Path,
        slurm: Slurm,
        user: str,
        *,
        shown: Path | None = None,
        again: Callable[[str], None] = submit_again,
    ) -> None:
        """`shown`: where the cluster has the folder, if it is a copy; `again` submits the next attempt
        of a job, by its folder."""
        self._slurm, self._user, self._again = slurm, user, again
        self._shown = shown or folder
        self.files = SharedFiles(folder / "jobs")
        # What one look shows is what is told: nobody looks twice in a moment.
        self._engine = SlurmEngine(folder, slurm=slurm, poll_s=0.5)

    def ids(self) -> list[str]:
        """Newest first."""
        ids = self.files.job_ids()
        return sorted(ids, key=lambda job_id: -self._made_at(job_id))

    def find(self, word: str) -> str:
        """The id that somebody means: an id, its first letters, or a name; JobNotFound."""
        ids = self.ids()
        begun = [job_id for job_id in ids if job_id.startswith(word)]
        if word in ids or len(begun) == 1:
            return word if word in ids else begun[0]
        for job_id in ids:
            if str(_spec_values(self.files.directory(job_id)).get("name")) == word:
                return job_id
        raise JobNotFound(f"there is no job {word!r} in {self.files.directory('')}")

    def records(self, ids: list[str]) -> list[JobRecord]:
        """With one question to Slurm for all of them."""
        queue = self._queue()
        made = [self._record(job_id, queue) for job_id in ids]
        return [record for record in made if record is not None]

    def record(self, job_id: str) -> JobRecord:
        """One job."""
        found = self.records([job_id])
        if not found:
            raise JobNotFound(f"the folder of job {job_id} is damaged")
        return found[0]

    def stop(self, job_id: str) -> None:
        """Ask its attempt to end, and let none follow."""
        root = self.files.directory(job_id)
        (root / "stopped.json").touch()
        for directory in self.files.attempts(job_id)[-1:]:
            spec = JobSpec.model_validate(_spec_values(root))
            self._engine.stop(_attempt(directory, spec, self._user), AttemptState.STOPPED)
        row = self._queue().row(job_id)
        if row is not None:
            self._slurm.cancel([row.id], pending_only=True)

    def _queue(self) -> _Queue:
        try:
            rows = newest(self._slurm.rows())
        except EngineFailed:
            return _Queue(None)
        found: dict[str, Row] = {}
        for (job_id, _), row in rows.items():
            before = found.get(job_id)
            if before is None or int(row.id) > int(before.id):
                found[job_id] = row
        return _Queue(found)

    def _made_at(self, job_id: str) -> float:
        try:
            return os.stat(self.files.directory(job_id) / "job.json").st_mtime
        except OSError:
            return 0.0

    def _record(self, job_id: str, queue: _Queue) -> JobRecord | None:
        root = self.files.directory(job_id)
        try:
            spec = JobSpec.model_validate(_spec_values(root))
            directories = self.files.attempts(job_id)
            attempts = tuple(self._attempt(one, spec) for one in directories)
        except (OSError, Unusable, ValueError):
            return None
        if not attempts:
            return None
        last = attempts[-1]
        state = self._state(root, last, queue.row(job_id), is_known=queue.rows is not None)
        ended = last if state.is_final else None
        shown = last
        row = queue.row(job_id)
        if state is JobState.QUEUED and row is not None:
            waits = self._engine.waits(row)
            shown = replace(last, cause=Cause.PENDING, values=waits, reason=None)
        return JobRecord(
            id=job_id,
            name=spec.name,
            user=self._user,
            state=state,
            device=str(spec.device),
            nodes=spec.nodes,
            priority=spec.priority,
            created_at=self._made_at(job_id),
            started_at=attempts[0].started_at,
            finished_at=None if ended is None else ended.finished_at,
            engine=self._engine.name,
            cause=shown.cause,
            values=shown.values,
            reason=shown.reason,
            attempt=last.number,
            segment=last.segment,
            time_limit_s=spec.time_limit,
            spec=spec.masked(),
            attempts=attempts,
            directory=str(self._shown / "jobs" / job_id),
        )

    def _attempt(self, directory: JobDir, spec: JobSpec) -> AttemptRecord:
        attempt = _attempt(directory, spec, self._user)
        (seen,) = self._engine.observe([attempt])
        begun = _begun_at(directory)
        return AttemptRecord(
            number=directory.number,
            state=seen.state,
            engine=self._engine.name,
            handle=seen.handle,
            segment=int(read_object(directory.request).get("segment") or 1),
            created_at=os.stat(directory.request).st_mtime,
            started_at=seen.started_at or begun,
            finished_at=seen.finished_at,
            exit_code=seen.exit_code,
            cause=seen.cause,
            values=seen.values,
            reason=seen.reason,
            tail=seen.tail,
            saved=seen.saved,
            advanced=seen.advanced,
        )

    def _state(
        self, root: Path, last: AttemptRecord, row: Row | None, *, is_known: bool
    ) -> JobState:
        if not last.state.is_final:
            if last.state is AttemptState.PENDING:
                return JobState.QUEUED
            is_stopping = os.path.exists(JobDir(str(root), last.number).stop)
            return JobState.STOPPING if is_stopping else JobState(last.state)
        if next_of(str(root)) is None:
            return _ENDS.get(last.state, JobState.STOPPED)
        since_s = time.time() - (last.finished_at or time.time())
        if is_known and (row is None or row.state not in _WAITING) and since_s > _PATIENCE_S:
            self._again(str(root))
        return JobState.QUEUED


def _spec_values(root: Path) -> dict[str, Any]:
    try:
        return dict(read_object(str(root / "job.json")).get("spec") or {})
    except (OSError, Unusable):
        return {}


def _attempt(directory: JobDir, spec: JobSpec, user: str) -> Attempt:
    root = Path(directory.root)
    return Attempt(
        job_id=directory.job_id,
        number=directory.number,
        user=user,
        spec=spec,
        directory=root,
        cards=(),
    )


def _begun_at(directory: JobDir) -> float | None:
    try:
        return os.stat(files_of(directory).begun).st_mtime
    except OSError:
        return None
