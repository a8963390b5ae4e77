"""A backup: all rows of the database in one SQLite file, whatever database they come from.

Rows are read in one transaction and put back in one, so a copy is never between two states and a
restore is done or not. One-time login codes are left out: none of them shall be good twice."""

import contextlib
import os
import sqlite3
from collections.abc import Generator
from pathlib import Path

from sqlalchemy import Connection, Table, delete, func, insert, select, text
from sqlalchemy.exc import SQLAlchemyError

from jumar.database.access import Database, make_sqlite, sqlite_engine
from jumar.database.tables import jobs, login_codes, metadata
from jumar.database.words import in_words
from jumar.errors import BadInput, HomeUnusable
from jumar.jobs import ledger
from jumar.wholefile import sync

_ROWS = 1000


def write_backup(database: Database, path: Path) -> None:
    """Make a new file with all that the database has at this moment; for its owner's eyes only."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise HomeUnusable(f"cannot write {path}: {error.strerror}") from error
    try:
        make_sqlite(path)
        with database.read_at_one_moment() as source, _opened(path) as target, target.begin():
            _copy_all(source, target)
        sync(path)
    except BaseException:
        remove_sqlite(path)
        raise


def prepare_backup(path: Path) -> None:
    """Check a file that is to be restored, and bring an older one up to date, in place."""
    hint = "give a file that jumar backup has written"
    try:
        with contextlib.closing(sqlite3.connect(path)) as plain:
            found = plain.execute("PRAGMA integrity_check(1)").fetchone()
            tables = {row[0] for row in plain.execute("SELECT name FROM sqlite_master")}
            orphans = plain.execute("PRAGMA foreign_key_check").fetchone()
    except sqlite3.Error as error:
        raise BadInput(f"this is not a backup: {error}", hint=hint) from error
    if found != ("ok",) or orphans is not None:
        raise BadInput("this backup is damaged", hint="give another one")
    if not {"alembic_version", "users", "jobs", "attempts"} <= tables:
        raise BadInput("this is not a backup of jumar: it has other tables", hint=hint)
    try:
        make_sqlite(path)
        with _opened(path) as connection:
            for row in connection.execute(select(jobs)):
                ledger.job_row(row)
    except HomeUnusable as error:
        raise BadInput(f"this backup cannot be restored: {error}", hint=error.hint) from error
    except ValueError as error:
        raise BadInput(f"this backup has a job that is none: {error}") from error


def put_rows(path: Path, target: Connection) -> None:
    """Give the database the rows of a prepared backup, and no others; part of a transaction."""
    with _opened(path) as source:
        _copy_all(source, target)
    if target.dialect.name == "postgresql":
        for table in _kept():
            _count_on(table, target)


def remove_sqlite(path: Path) -> None:
    """Delete a file and what SQLite puts beside it."""
    for ending in ("-wal", "-shm", "-journal", ""):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _kept() -> list[Table]:
    return [table for table in metadata.sorted_tables if table is not login_codes]


@contextlib.contextmanager
def _opened(path: Path) -> Generator[Connection]:
    engine = sqlite_engine(path)
    try:
        with engine.connect() as connection:
            yield connection
    except SQLAlchemyError as error:
        words = in_words(error)
        raise BadInput(f"{path.name}: {words}", hint=words.hint) from error
    finally:
        engine.dispose()


def _copy_all(source: Connection, target: Connection) -> None:
    """Every row that is kept, in place of whatever was there: new tables have rows, too."""
    for table in reversed(metadata.sorted_tables):
        target.execute(delete(table))
    for table in _kept():
        _copy(table, source, target)


def _copy(table: Table, source: Connection, target: Connection) -> None:
    rows = source.execution_options(yield_per=_ROWS).execute(select(table))
    for part in rows.mappings().partitions():
        target.execute(insert(table), [dict(row) for row in part])


def _count_on(table: Table, target: Connection) -> None:
    """PostgreSQL numbers new rows from where it stood itself."""
    column = table.autoincrement_column
    if column is None:
        return
    highest = target.execute(select(func.max(column))).scalar()
    if highest is not None:
        place = {"table": table.name, "column": column.name, "highest": highest}
        target.execute(
            text("SELECT setval(pg_get_serial_sequence(:table, :column), :highest)"), place
        )
