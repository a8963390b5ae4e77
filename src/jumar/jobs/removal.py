"""Ended jobs, removed together with their folders.

The folder is renamed first, then the job's rows are deleted, then the folder, in a thread of its own:
it may hold millions of files. After a crash in between, the next start puts back the folder of a job
that is still written down, and goes on deleting the others."""

import logging
import os
import queue
import shutil
import stat
import threading
from pathlib import Path

from sqlalchemy import Connection

from jumar.database.access import Database
from jumar.errors import HomeUnusable, JobNotEnded, JumarError, NotUploaded
from jumar.jobs import ledger
from jumar.jobs.ledger import JobRow
from jumar.jobs.roster import Roster

log = logging.getLogger(__name__)
_ASIDE = ".removed-"


class Removals:
    """Thread-safe."""

    def __init__(self, database: Database, folder: Path, roster: Roster) -> None:
        self._database = database
        self._folder = folder
        self._roster = roster
        self._doomed: queue.SimpleQueue[Path] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._delete_forever, name="removals", daemon=True)

    def start(self) -> None:
        """Go on with what an earlier life has left."""
        for left in self._folder.glob(f"{_ASIDE}*"):
            try:
                self._settle(left.name.removeprefix(_ASIDE))
            except JumarError as error:
                log.warning("%s", error)
        self._thread.start()

    def remove(self, job_id: str) -> None:
        """Remove an ended job; Conflict while it is not over or has results that are only here."""

        def delete(connection: Connection) -> None:
            _check_removable(ledger.find_job(connection, job_id))
            ledger.delete_job(connection, job_id)

        with self._database.read() as connection:
            _check_removable(ledger.find_job(connection, job_id))
        _rename(self._folder / job_id, self._aside(job_id))
        try:
            self._database.write(delete, then=lambda _: self._roster.forget())
        finally:
            self._settle(job_id)
        log.info("job %s is removed", job_id)

    def _settle(self, job_id: str) -> None:
        """The database says whether a folder that was set aside goes back or away."""
        with self._database.read() as connection:
            is_kept = ledger.has_job(connection, job_id)
        if is_kept:
            _rename(self._aside(job_id), self._folder / job_id)
        else:
            self._doomed.put(self._aside(job_id))

    def _aside(self, job_id: str) -> Path:
        return self._folder / f"{_ASIDE}{job_id}"

    def _delete_forever(self) -> None:
        while True:
            path = self._doomed.get()
            try:
                _delete(path)
            except OSError as error:
                log.warning("%s is left to the next start: %s", path, error)


def _check_removable(row: JobRow) -> None:
    if not row.state.is_final:
        raise JobNotEnded(
            f"job {row.id} is {row.state}: only jobs that have ended are removed",
            hint=f"end it first: jumar stop {row.id}",
        )
    if row.not_uploaded:
        raise NotUploaded(
            f"results of job {row.id} are not yet uploaded: its folder is all there is of them",
            hint=f"send them first: jumar jobs upload {row.id}",
        )


def _rename(path: Path, target: Path) -> None:
    try:
        path.rename(target)
    except FileNotFoundError:
        # A job that never started has no folder; and another removal may have been quicker.
        return
    except OSError as error:
        raise HomeUnusable(f"cannot rename {path} to {target}: {error.strerror}") from error


def _delete(path: Path) -> None:
    if path.is_symlink():
        # Somebody moved the folder to another disk: what is there is theirs to delete.
        path.unlink()
        return
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        # A job may have taken the right to write to its folders from itself.
        path.chmod(stat.S_IRWXU)
        for place, folders, _ in os.walk(path):
            for below in (Path(place, folder) for folder in folders):
                # Where a link leads to is not the job's.
                if not below.is_symlink():
                    below.chmod(stat.S_IRWXU)
        shutil.rmtree(path)
