"""When the database is lost, or older than what has happened: backup, restore, repair.

All of it works beside running jobs, under the server: between two passes of the conductor and in one
transaction, so that being killed anywhere leaves the list as it was or as it shall be."""

import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, delete, func, insert, select, update

from jumar.database.access import Database, make_sqlite, sqlite_engine
from jumar.database.tables import attempts, jobs, users
from jumar.engine.base import Attempt, CarriesData, HasCards
from jumar.engine.files import JobFiles
from jumar.errors import DatabaseLost, JumarError
from jumar.jobs import ledger
from jumar.jobs.backup import prepare_backup, put_rows, remove_sqlite, write_backup
from jumar.jobs.conductor import Conductor
from jumar.jobs.engines import Engines
from jumar.jobs.folders import Folder, read_folders
from jumar.jobs.rows import Standing, because, cards_json
from jumar.spec.causes import known
from jumar.spec.devices import CardRef
from jumar.spec.records import AttemptRecord
from jumar.spec.repairs import FoundJob, RepairReport, RestoreReport

T = TypeVar("T")
_KindCard = tuple[str, CardRef]
log = logging.getLogger(__name__)
_RESTORE_LIMIT_S = 1800.0
_SCRATCH = "recovery"
_KEPT = ("number", "state", "created_at", "started_at", "finished_at", "exit_code", "tail")


@dataclass(frozen=True, slots=True)
class _Difference:
    """A folder that tells more than the list."""

    folder: Folder
    seq: int | None
    """The row of the list; None where there is none."""

    def record(self) -> FoundJob:
        folder = self.folder
        return FoundJob(
            id=folder.id,
            name=folder.spec.name,
            user=folder.user,
            state=folder.state,
            is_new=self.seq is None,
        )


class Recovery:
    """Thread-safe."""

    def __init__(
        self,
        *,
        database: Database,
        conductor: Conductor,
        engines: Engines,
        files: JobFiles,
        home: Path,
        on_restored: Callable[[], None],
    ) -> None:
        """`on_restored` is called when the database has other rows than before."""
        self._database = database
        self._conductor = conductor
        self._engines = engines
        self._home = home
        self._files = files
        self._on_restored = on_restored
        self.unlisted: str | None = None
        """What the list lacks since the start, in words."""

    def start(self) -> None:
        """Throw away what a killed server has left half done; take in what runs unlisted.

        Else the cards of such a job would be given to others while it runs."""
        for left in self._home.glob(f".{_SCRATCH}-*"):
            remove_sqlite(left)
        with self._database.read() as connection:
            known = {row.id for row in connection.execute(select(jobs.c.id))}
        unlisted = [job_id for job_id in self._files.job_ids() if job_id not in known]
        if not unlisted:
            return
        found, _ = read_folders(self._files, unlisted)
        live = [folder for folder in found if folder.is_live]
        if live:
            self._database.write(lambda c: self._apply(c, _differences(c, live)))
            log.warning("%d jobs that run and were not in the list are in it again", len(live))
        if len(unlisted) > len(live):
            lacking = len(unlisted) - len(live)
            self.unlisted = f"{lacking} job folders are not in the list; see: jumar repair"
            log.warning("%s", self.unlisted)

    @contextmanager
    def scratch(self) -> Generator[Path]:
        """A path in the home for a file that nobody needs afterwards."""
        path = self._home / f".{_SCRATCH}-{secrets.token_hex(8)}"
        try:
            yield path
        finally:
            remove_sqlite(path)

    def backup(self, path: Path) -> None:
        """Write all that the database has into a new file."""
        write_backup(self._database, path)

    def restore(self, path: Path) -> RestoreReport:
        """Give the database the rows of a backup, then what the job folders know beyond them."""
        prepare_backup(path)
        with self._conductor.held():
            kept = self._keep_what_is_there()
            ids = self._files.job_ids()
            found, left = read_folders(self._files, ids)

            def change(connection: Connection) -> tuple[RestoreReport, Standing]:
                put_rows(path, connection)
                counts = [
                    connection.execute(select(func.count()).select_from(table)).scalar_one()
                    for table in (jobs, users)
                ]
                differences = _differences(connection, found)
                self._apply(connection, differences)
                report = RestoreReport(
                    jobs=counts[0],
                    users=counts[1],
                    found=tuple(difference.record() for difference in differences),
                    left=tuple(left),
                    kept=None if kept is None else str(kept),
                )
                return report, ledger.standing(connection)

            report = self._write(change)
        log.warning("restored %d jobs and %d users", report.jobs, report.users)
        return report

    def repair(self, *, dry: bool) -> RepairReport:
        """Put a lost file back, and into the list what only the job folders know."""
        found, left = read_folders(self._files, self._files.job_ids())
        with self._conductor.held(), self.scratch() as prepared:
            problem = self._problem()
            salvaged = problem is not None and self._prepare(prepared)
            with self._reading(prepared if problem else None) as connection:
                differences = _differences(connection, found)
                strangers = _strangers(connection, differences)
            aside: Path | None = None
            if not dry and (problem or differences):
                if problem:
                    aside = self._database.replace_file(prepared)
                self._write(lambda c: (self._apply(c, differences), ledger.standing(c)))
            return RepairReport(
                is_done=not dry,
                problem=problem,
                salvaged=salvaged,
                set_aside=None if aside is None else str(aside),
                jobs=tuple(difference.record() for difference in differences),
                users=tuple(strangers),
                left=tuple(left),
            )

    def _write(self, change: Callable[[Connection], tuple[T, Standing]]) -> T:
        def then(answer: tuple[T, Standing]) -> None:
            self._conductor.begin_anew(answer[1])

        answer = self._database.write(change, then=then, limit_s=_RESTORE_LIMIT_S)[0]
        self.unlisted = None
        self._on_restored()
        return answer

    def _problem(self) -> str | None:
        try:
            self._database.check()
        except DatabaseLost as error:
            return error.message
        return None

    def _prepare(self, path: Path) -> bool:
        """A database to go on with: what the server still sees, else an empty one."""
        try:
            self._database.salvage(path)
            make_sqlite(path)
        except (sqlite3.Error, JumarError) as error:
            log.warning("nothing can be saved of the lost database: %s", error)
            remove_sqlite(path)
            make_sqlite(path)
            return False
        return True

    @contextmanager
    def _reading(self, prepared: Path | None) -> Generator[Connection]:
        if prepared is None:
            with self._database.read() as connection:
                yield connection
            return
        engine = sqlite_engine(prepared)
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()

    def _keep_what_is_there(self) -> Path | None:
        if self._problem() is not None:
            with self.scratch() as prepared:
                make_sqlite(prepared)
                return self._database.replace_file(prepared)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path = self._home / f"before-restore-{stamp}-{secrets.token_hex(2)}.db"
        with self.scratch() as aside:
            self.backup(aside)
            os.rename(aside, path)
        return path

    def _apply(self, connection: Connection, differences: list[_Difference]) -> None:
        # Past the table of steps: the rows tell of another time than the folders.
        _add_users(connection, _strangers(connection, differences))
        free = self._free_cards(connection, {difference.folder.id for difference in differences})
        for difference in differences:
            self._write_down(connection, difference, free)

    def _free_cards(self, connection: Connection, found: set[str]) -> set[_KindCard]:
        """Those that nobody else holds: a folder may name any."""
        placing = self._engines.placing
        if not isinstance(placing, HasCards):
            return set()
        free = {(card.kind.value, card.ref) for card in placing.cards()}
        for row, attempt in ledger.active_jobs(connection):
            if row.id not in found:
                free -= {(row.spec.device.kind.value, card) for card in attempt.cards}
        return free

    def _write_down(
        self, connection: Connection, difference: _Difference, free: set[_KindCard]
    ) -> None:
        folder, last = difference.folder, difference.folder.last
        state = folder.state
        begun = [attempt.started_at for attempt in folder.attempts if attempt.started_at]
        values = {
            "state": state,
            **_why(last),
            "attempt": last.number,
            "started_at": min(begun, default=None),
            "finished_at": last.finished_at if state.is_final else None,
            "not_uploaded": state.is_final and self._has_unsent(folder),
        }
        seq = difference.seq
        if seq is None:
            row, _ = ledger.insert_job(
                connection,
                user=folder.user,
                spec=folder.spec,
                notes=(),
                key=None,
                now=folder.attempts[0].created_at,
                job_id=folder.id,
                engine=self._engine_of(folder),
            )
            seq = row.seq
        connection.execute(update(jobs).where(jobs.c.seq == seq).values(**values))
        connection.execute(delete(attempts).where(attempts.c.job_seq == seq))
        rows = [
            {
                **{name: getattr(attempt, name) for name in _KEPT},
                **_why(attempt),
                "engine": self._engine_of(folder),
                "job_seq": seq,
                "cards": cards_json(_taken(attempt, folder, free)),
            }
            for attempt in folder.attempts
        ]
        connection.execute(insert(attempts), rows)

    def _engine_of(self, folder: Folder) -> str:
        """Folders of an earlier jumar do not tell."""
        return folder.engine or self._engines.default.name

    def _has_unsent(self, folder: Folder) -> bool:
        name = self._engine_of(folder)
        engine = self._engines.of(name) if name in self._engines.names else None
        if not folder.spec.sends_results or not isinstance(engine, CarriesData):
            return False
        last = Attempt(
            job_id=folder.id,
            number=folder.last.number,
            user=folder.user,
            spec=folder.spec,
            directory=self._files.directory(folder.id),
            cards=(),
            engine=name,
        )
        record = engine.staging(last)
        return record is not None and record.has_unsent


def _differences(connection: Connection, found: list[Folder]) -> list[_Difference]:
    """What the folders know and the list does not, oldest first.

    An attempt that both know is looked at by the conductor, as ever."""
    rows = connection.execute(select(jobs.c.id, jobs.c.seq, jobs.c.attempt))
    known = {row.id: row for row in rows}
    more: list[_Difference] = []
    for folder in sorted(found, key=lambda folder: folder.attempts[0].created_at):
        row = known.get(folder.id)
        if row is None or row.attempt < folder.last.number:
            more.append(_Difference(folder, None if row is None else row.seq))
    return more


def _strangers(connection: Connection, differences: list[_Difference]) -> list[str]:
    known = {row.name for row in connection.execute(select(users.c.name))}
    return sorted({difference.folder.user for difference in differences} - known)


def _add_users(connection: Connection, names: list[str]) -> None:
    for name in names:
        values = {"name": name, "role": "pending", "created_at": time.time()}
        connection.execute(insert(users).values(**values))


def _why(attempt: AttemptRecord) -> dict[str, Any]:
    cause, values = known(attempt.cause or "", attempt.values)
    return because(cause, values, attempt.reason)


def _taken(attempt: AttemptRecord, folder: Folder, free: set[_KindCard]) -> tuple[CardRef, ...]:
    """The cards of an attempt; one that runs takes those it names from `free`."""
    if attempt.state.is_final:
        return attempt.cards
    kind = folder.spec.device.kind.value
    taken = tuple(card for card in attempt.cards if (kind, card) in free)
    free -= {(kind, card) for card in taken}
    return taken
