"""An SQLite database: how its connections begin, and whether its file on disk is still what is open here.

SQLite writes on into a file that was removed, and nobody is told. So the file and its write-ahead log
are compared with what was opened: a few microseconds before and after each commit."""

import contextlib
import os
import secrets
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event

from jumar.errors import DatabaseAway, DatabaseLost, HomeUnusable

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
# Where the header has the number that programs may choose (`PRAGMA user_version`).
_MARK_AT = slice(60, 64)
_LOCK_WAIT_S = 10.0
_HINT = (
    "put it back with: jumar repair (from the job folders and what the server still holds), "
    "or jumar restore FILE (from a backup)"
)


def prepared(engine: Engine) -> Engine:
    """Whose connections are set as ours must be, and begin as we say."""
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _record: Any) -> None:
    # The driver's own BEGIN comes too late for savepoints; `_begin` says it instead.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("jumar_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class SqliteFile:
    """Thread-safe. Made after the tables are up to date, closed after all other connections."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # One connection stays open for as long as this lives: the last one that closes would
        # remove the log, and this one still sees all that was written when the file is gone.
        self._anchor = sqlite3.connect(
            path, timeout=_LOCK_WAIT_S, isolation_level=None, check_same_thread=False
        )
        mark = secrets.randbelow(2**31 - 1) + 1
        self._anchor.execute("PRAGMA journal_mode=WAL")
        # Another database that is copied over this file has another mark.
        self._anchor.execute(f"PRAGMA user_version={mark:d}")
        self._anchor.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
        self._anchor.execute("SELECT count(*) FROM sqlite_master").fetchall()
        # Never closed while SQLite has the file open: that would drop SQLite's own locks.
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        # A checkpoint that somebody else's reader holds up leaves the mark in the log for now.
        self._marks = {mark.to_bytes(4), self._header()[_MARK_AT]}
        self._log_path = f"{path}-wal"
        self._log_id = _identity(os.stat(self._log_path))
        self._log_bytes = 0
        self._damage: str | None = None

    def note_damage(self, words: str) -> None:
        """SQLite itself has found that the content makes no sense."""
        self._damage = f"the database {self.path} is damaged ({words})"

    def check(self) -> None:
        """DatabaseLost unless what is on disk is what is open; DatabaseAway if that cannot be seen."""
        problem = self.problem()
        if problem is not None:
            raise DatabaseLost(f"{problem}: nothing can be saved", hint=_HINT)

    def problem(self) -> str | None:
        """What happened to the file, in words."""
        if self._damage is not None:
            return self._damage
        try:
            if _identity(os.stat(self.path)) != _identity(os.fstat(self._handle)):
                return f"the database {self.path} was replaced while the server runs"
            header = self._header()
            if header[: len(_MAGIC)] != _MAGIC or header[_MARK_AT] not in self._marks:
                return f"the database {self.path} was overwritten while the server runs"
            # Read before the look: another thread may have seen it grow in between.
            known_bytes = self._log_bytes
            found = os.stat(self._log_path)
            if _identity(found) != self._log_id:
                return f"{self._log_path}, a part of the database, was replaced"
            # SQLite writes it anew from its beginning, and never makes it shorter while it is open.
            if found.st_size < known_bytes:
                return f"{self._log_path}, a part of the database, was cut short"
            self._log_bytes = max(known_bytes, found.st_size)
        except FileNotFoundError as error:
            return f"the database's file {error.filename} was removed while the server runs"
        except OSError as error:
            # Too many open files, a share that is away: that says nothing about the file.
            raise DatabaseAway(f"{self.path} cannot be looked at now: {error.strerror}") from error
        return None

    def copy_to(self, path: Path) -> None:
        """All that the open connection sees, also of a file that is gone; sqlite3.Error if it cannot."""
        keep_private(path)
        with contextlib.closing(sqlite3.connect(path)) as copy:
            self._anchor.backup(copy)
            found = copy.execute("PRAGMA integrity_check(1)").fetchone()
            if found != ("ok",):
                raise sqlite3.DatabaseError(str(found[0]))

    def close(self) -> None:
        """Let go."""
        self._anchor.close()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _header(self) -> bytes:
        return os.pread(self._handle, _HEADER_BYTES, 0)


def keep_private(path: Path) -> None:
    """Only its owner may read it: there are hashes of passwords in it. SQLite's files beside it follow."""
    try:
        # Never while SQLite has it open: closing it would drop SQLite's locks.
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        # SQLite itself finds out and says so.
        return
    os.close(handle)
    for ending in ("", "-wal", "-shm"):
        # Somebody else's file has the modes that they gave it.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            os.chmod(f"{path}{ending}", 0o600)


def is_damaged(path: Path) -> bool:
    """Whether there is a file that no server could start with; HomeUnusable if that cannot be seen."""
    if not path.exists():
        return False
    try:
        with contextlib.closing(sqlite3.connect(path)) as plain:
            return plain.execute("PRAGMA quick_check(1)").fetchone() != ("ok",)
    except sqlite3.OperationalError as error:
        # Locked, or not to be read: that says nothing about its content.
        raise HomeUnusable(f"{path} cannot be looked at: {error}") from error
    except sqlite3.DatabaseError:
        return True


def set_aside(path: Path, instead: Path | None = None) -> Path | None:
    """Rename a database that cannot be used, with the files beside it; where it is now.

    `instead`: a database that takes its place, so that there is one at every moment."""
    aside = path.with_name(
        f"{path.name}.aside-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    )
    # The log first: beside another database it would be taken for that one's.
    for ending in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{path}{ending}", f"{aside}{ending}")
    with contextlib.suppress(FileNotFoundError):
        os.link(path, aside)
    if instead is None:
        path.unlink(missing_ok=True)
    else:
        os.replace(instead, path)
    return aside if aside.exists() else None


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
