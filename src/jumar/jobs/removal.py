"""Ended jobs, removed together with their folders.

The folder is renamed first, then the job's rows are deleted, then the folder, in a thread of its own:
it may hold millions of files, and what a user does to hers must hold up nobody else. After a crash in
between, the next start puts back the folder of a job that is still written down, and goes on deleting
the others."""

import logging
import threading
from collections import deque
from collections.abc import Callable

from sqlalchemy import Connection

from jumar.database.access import Database
from jumar.engine.files import JobFiles
from jumar.errors import Conflict, JobNotEnded, JumarError, NotUploaded
from jumar.jobs import ledger
from jumar.jobs.roster import Roster
from jumar.jobs.rows import JobRow

log = logging.getLogger(__name__)


class Removals:
    """Thread-safe."""

    def __init__(
        self,
        database: Database,
        files: JobFiles,
        roster: Roster,
        *on_removed: Callable[[str], None],
    ) -> None:
        self._on_removed = on_removed
        self._database = database
        self._files = files
        self._roster = roster
        self._lock = threading.Lock()
        self._doomed: dict[str, deque[str]] = {}
        """Jobs by user; a thread works on each."""

    def start(self) -> None:
        """Go on with what an earlier life has left; whose it was nobody knows any more."""
        for left in self._files.aside():
            try:
                self._settle(left, "")
            except JumarError as error:
                log.warning("%s", error)

    def remove(self, job_id: str) -> None:
        """Remove an ended job; Conflict while it is not over or has results that are only here."""

        def delete(connection: Connection) -> None:
            self._check_removable(ledger.find_job(connection, job_id))
            ledger.delete_job(connection, job_id)

        with self._database.read() as connection:
            row = ledger.find_job(connection, job_id)
            self._check_removable(row)
        self._files.set_aside(job_id)
        try:
            self._database.write(delete, then=lambda _: self._roster.forget())
        finally:
            self._settle(job_id, row.user)
        for hears in self._on_removed:
            hears(job_id)
        log.info("job %s is removed", job_id)

    def _check_removable(self, row: JobRow) -> None:
        if not row.state.is_final:
            raise JobNotEnded(
                f"job {row.id} is {row.state}: only jobs that have ended are removed",
                hint=f"end it first: jumar stop {row.id}",
            )
        if self._roster.is_awaited(row.id, row.array_id):
            raise Conflict(
                f"other jobs wait for job {row.id}", hint="remove it when they have started"
            )
        if row.not_uploaded:
            raise NotUploaded(
                f"results of job {row.id} are not yet uploaded: its folder is all there is of them",
                hint=f"send them first: jumar jobs upload {row.id}",
            )

    def _settle(self, job_id: str, user: str) -> None:
        """The database says whether a folder that was set aside goes back or away."""
        with self._database.read() as connection:
            is_kept = ledger.has_job(connection, job_id)
        if is_kept:
            self._files.put_back(job_id)
            return
        with self._lock:
            is_worked_on = user in self._doomed
            self._doomed.setdefault(user, deque()).append(job_id)
        if not is_worked_on:
            name = f"removals of {user}"
            threading.Thread(target=self._delete_all, args=(user,), name=name, daemon=True).start()

    def _delete_all(self, user: str) -> None:
        while True:
            with self._lock:
                if not self._doomed[user]:
                    del self._doomed[user]
                    return
                job_id = self._doomed[user].popleft()
            try:
                self._files.delete(job_id)
            except (OSError, JumarError) as error:
                log.warning("the files of job %s are left to the next start: %s", job_id, error)
