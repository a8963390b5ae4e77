"""One database, SQLite or PostgreSQL: opened, migrated, read by many and written by one.

All writes go through one thread that commits whatever is waiting as one transaction, so that many
small durable writes share one sync of the disk. A write that fails takes only itself back. A database
that is away for a while is waited for; one whose file is gone takes nothing until it is put back."""

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import (
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
)

from jumar.database.complaints import Complaints
from jumar.database.connect import make_engine, migrate
from jumar.database.sqlite_file import SqliteFile, keep_private, set_aside
from jumar.database.words import in_words, is_damage
from jumar.errors import DatabaseAway, HomeUnusable, JumarError

T = TypeVar("T")
Write = Callable[[Connection], T]
log = logging.getLogger(__name__)

_BATCH = 256
_WRITE_LIMIT_S = 60.0
# How long a database that does not answer is waited for, before the callers are told.
_PATIENCE_S = 30.0
_PAUSE_S = 0.2
# Any number: it only has to be the same in every jumar.
_ADVISORY_LOCK = 0x6A756D6172
_CLAIM_LIMIT_S = 5.0
_CLAIM_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One write in the writer's queue."""

    change: Write[Any]
    then: Callable[[Any], None] | None
    future: Future[Any]


class _Unsure(Exception):
    """The database went away while it committed: it may have, or not."""


class Database:
    """Reads from any thread; writes are queued to the one writer."""

    def __init__(
        self, engine: Engine, only_user: Connection | None, file: SqliteFile | None
    ) -> None:
        self._engine = engine
        self._only_user = only_user
        self._file = file
        if file is not None:
            # A connection that is opened now must not make, or see, another file in its place.
            event.listen(engine, "do_connect", self._check_before_connect)
        self._complaints = Complaints(log)
        self.trouble: JumarError | None = None
        """Why the last writes failed; None when they did not."""
        self._committing = threading.Lock()
        self._closing = threading.Event()
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_forever, name="database-writer")
        self._writer.daemon = True
        self._writer.start()

    @property
    def path(self) -> Path | None:
        """Where the file is; None for a database that is elsewhere."""
        return None if self._file is None else self._file.path

    def check(self) -> None:
        """DatabaseLost when the database's file is not what it was."""
        if self._file is not None:
            self._file.check()

    @contextmanager
    def read(self) -> Generator[Connection]:
        """A connection that sees what was committed."""
        self.check()
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            self._look_for_damage(error)
            self.check()
            raise in_words(error) from error

    def _look_for_damage(self, error: Exception) -> None:
        if self._file is not None and isinstance(error, SQLAlchemyError) and is_damage(error):
            self._file.note_damage(str(getattr(error, "orig", error)))

    @contextmanager
    def read_at_one_moment(self) -> Generator[Connection]:
        """A connection whose every query sees the same state."""
        with self.read() as connection:
            # SQLite's transactions are so by themselves.
            if connection.dialect.name == "postgresql":
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            yield connection

    def write(
        self,
        change: Write[T],
        then: Callable[[T], None] | None = None,
        *,
        limit_s: float = _WRITE_LIMIT_S,
    ) -> T:
        """Run `change` in a transaction and return its result once that is on disk.

        `then` is called with the result in the order of commits: what it keeps in memory is
        never older than what a later write sees. `change` may be run more than once, each time
        after all that it did was taken back."""
        return self._outcome(self._queue(change, then), limit_s)

    def write_each(
        self, changes: Iterable[Write[T]], then: Callable[[T], None]
    ) -> list[T | Exception]:
        """Like `write` for each of the changes, sharing transactions; one that fails costs only itself."""
        queued = [self._queue(change, then) for change in changes]
        outcomes: list[T | Exception] = []
        for future in queued:
            try:
                outcomes.append(self._outcome(future, _WRITE_LIMIT_S))
            except Exception as error:  # noqa: BLE001  it is that change's own, and the caller's
                outcomes.append(error)
        return outcomes

    def _queue(self, change: Write[T], then: Callable[[T], None] | None) -> Future[T]:
        future: Future[T] = Future()
        self._waiting.put(_Waiting(change, then, future))
        return future

    @staticmethod
    def _outcome(future: Future[T], limit_s: float) -> T:
        try:
            return future.result(timeout=limit_s)
        except TimeoutError:
            if future.done():
                # The error is the change's own, or it came at the very last moment.
                return future.result()
            if future.cancel():
                raise DatabaseAway(
                    f"the database took no writes for {limit_s:.0f} s; nothing was changed",
                    hint="try again later",
                ) from None
            raise _not_known() from None

    def write_later(self, change: Write[Any]) -> None:
        """Queue a change that nobody waits for and that may be lost, such as a coarse time of use."""
        self._waiting.put(_Waiting(change, None, Future()))

    def close(self) -> None:
        """Finish what is queued, then let go."""
        self._closing.set()
        self._waiting.put(None)
        self._writer.join(timeout=_WRITE_LIMIT_S)
        if self._only_user is not None:
            self._only_user.close()
        self._engine.dispose()
        if self._file is not None:
            self._file.close()

    def salvage(self, path: Path) -> None:
        """Copy what the server still sees of a lost file; sqlite3.Error if it cannot be."""
        assert self._file is not None
        self._file.copy_to(path)

    def replace_file(self, prepared: Path) -> Path | None:
        """Go on with this file instead of a lost one, whose remains are renamed: to what."""
        assert self._file is not None
        with self._committing:
            try:
                # First of all: SQLite writes what is in its log into a file that it closes, unless
                # that has moved, and what somebody has put there is theirs.
                aside = set_aside(self._file.path, instead=prepared)
            except OSError as error:
                raise HomeUnusable(f"cannot put the database back: {error}") from error
            self._engine.dispose()
            self._file.close()
            self._file = _watched(self._file.path)
        return aside

    def _check_before_connect(self, *_: object) -> None:
        self.check()

    def _write_forever(self) -> None:
        while (batch := self._next_batch()) is not None:
            if batch:
                self._commit(batch)

    def _next_batch(self) -> list[_Waiting] | None:
        first = self._waiting.get()
        if first is None:
            return None
        batch = [first]
        while len(batch) < _BATCH:
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                break
            if item is None:
                self._waiting.put(None)
                break
            batch.append(item)
        return batch

    def _commit(self, batch: list[_Waiting]) -> None:
        # Who has given up waiting is told that nothing was changed; so it must be.
        batch = [waiting for waiting in batch if waiting.future.set_running_or_notify_cancel()]
        give_up_at = time.monotonic() + _PATIENCE_S
        while True:
            try:
                done = self._try(batch)
            except (SQLAlchemyError, JumarError, _Unsure) as error:
                self._look_for_damage(error)
                words = self.trouble = _explained(error)
                # In the database's own words, without the statement, which may hold secrets.
                self._complaints.say("writing to the database", getattr(error, "orig", words))
                is_passing = isinstance(words, DatabaseAway) and not isinstance(error, _Unsure)
                if is_passing and time.monotonic() < give_up_at and not self._closing.is_set():
                    self._closing.wait(_PAUSE_S)
                    continue
                for waiting in batch:
                    if not waiting.future.done():
                        waiting.future.set_exception(words)
                return
            break
        self.trouble = None
        if self._complaints.said:
            self._complaints.over("writing to the database")
        for waiting, result in done:
            if waiting.then is not None:
                waiting.then(result)
            waiting.future.set_result(result)

    def _try(self, batch: list[_Waiting]) -> list[tuple[_Waiting, Any]]:
        done: list[tuple[_Waiting, Any]] = []
        with self._committing:
            self.check()
            self._keep_claim()
            with self._engine.connect() as plain:
                connection = plain.execution_options(jumar_writes=True)
                with connection.begin() as transaction:
                    for waiting in batch:
                        if not waiting.future.done():
                            self._apply(connection, waiting, done)
                    try:
                        transaction.commit()
                    except (OperationalError, InterfaceError) as error:
                        if connection.dialect.name == "postgresql":
                            raise _Unsure from error
                        raise
            # What was written into a file that is no longer there is not written.
            self.check()
        return done

    def _keep_claim(self) -> None:
        """A database that was restarted has forgotten whose it is."""
        if self._only_user is None:
            return
        try:
            self._only_user.execute(text("SELECT 1"))
            self._only_user.commit()
        except SQLAlchemyError:
            self._only_user.close()
            self._only_user = _claim(self._engine)

    def _apply(
        self, connection: Connection, waiting: _Waiting, done: list[tuple[_Waiting, Any]]
    ) -> None:
        savepoint = connection.begin_nested()
        try:
            result = waiting.change(connection)
        except SQLAlchemyError as error:
            try:
                savepoint.rollback()
            except SQLAlchemyError:
                # A full disk takes back the whole transaction; the first error says why.
                raise error from None
            self._look_for_damage(error)
            waiting.future.set_exception(in_words(error))
        except Exception as error:  # noqa: BLE001  it is the caller's, who gets it from the future
            savepoint.rollback()
            waiting.future.set_exception(error)
        else:
            savepoint.commit()
            done.append((waiting, result))


def open_database(url: str) -> Database:
    """Open the database at `url`, bring its tables up to date, and start its writer."""
    engine = make_engine(url)
    only_user: Connection | None = None
    file: SqliteFile | None = None
    try:
        if engine.dialect.name == "sqlite" and engine.url.database:
            keep_private(Path(engine.url.database))
        only_user = _claim(engine)
        migrate(engine)
        if engine.dialect.name == "sqlite" and engine.url.database:
            file = _watched(Path(engine.url.database))
    except (SQLAlchemyError, JumarError) as error:
        if only_user is not None:
            only_user.close()
        engine.dispose()
        if isinstance(error, JumarError):
            raise
        raise _at_the_start(error) from error
    return Database(engine, only_user, file)


def _at_the_start(error: SQLAlchemyError) -> JumarError:
    """Whoever starts a server wants to know why the address that they gave does not work."""
    words = in_words(error)
    if not isinstance(words, DatabaseAway):
        return words
    cause = " ".join(str(getattr(error, "orig", error)).split())
    return HomeUnusable(
        f"the database cannot be reached: {cause}",
        hint="check JUMAR_DATABASE_URL (or database_url in config.toml), and that the database runs",
    )


def make_sqlite(path: Path) -> None:
    """A new file with empty tables, or an older one brought up to date."""
    engine = make_engine(f"sqlite:///{path}")
    try:
        migrate(engine)
    except SQLAlchemyError as error:
        raise in_words(error) from error
    finally:
        engine.dispose()


def sqlite_engine(path: Path) -> Engine:
    """A file that is not the platform's own database: a backup."""
    return make_engine(f"sqlite:///{path}")


def _watched(path: Path) -> SqliteFile:
    try:
        return SqliteFile(path)
    except (sqlite3.Error, OSError) as error:
        raise HomeUnusable(f"the database {path} cannot be used: {error}") from error


def _explained(error: Exception) -> JumarError:
    if isinstance(error, _Unsure):
        return _not_known()
    if isinstance(error, SQLAlchemyError):
        return in_words(error)
    assert isinstance(error, JumarError)
    return error


def _not_known() -> DatabaseAway:
    return DatabaseAway(
        "the connection to the database broke during a write, which may or may not have been saved",
        hint="check before you try again: jumar jobs",
    )


def _claim(engine: Engine) -> Connection | None:
    # SQLite lies in a home that the server has locked; a PostgreSQL address can be given twice.
    if engine.dialect.name != "postgresql":
        return None
    connection = engine.connect()
    lock = text("SELECT pg_try_advisory_lock(:n)")
    # PostgreSQL notices a moment later that a server which was killed is gone.
    give_up_at = time.monotonic() + _CLAIM_LIMIT_S
    while not connection.execute(lock, {"n": _ADVISORY_LOCK}).scalar_one():
        if time.monotonic() > give_up_at:
            connection.close()
            raise HomeUnusable("another jumar server is using this database", hint="stop it first")
        time.sleep(_CLAIM_PAUSE_S)
    connection.commit()
    return connection
