"""One database, SQLite or PostgreSQL: opened, migrated, read by many and written by one.

All writes go through one thread that commits whatever is waiting as one transaction, so that many
small durable writes share one sync of the disk. A write that fails takes only itself back."""

import logging
import queue
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from jumar.errors import BadInput, HomeUnusable, JumarError, StorageFull

T = TypeVar("T")
Write = Callable[[Connection], T]
log = logging.getLogger(__name__)

_BATCH = 256
_WRITE_LIMIT_S = 60.0
# Any number: it only has to be the same in every jumar.
_ADVISORY_LOCK = 0x6A756D6172


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One write in the writer's queue."""

    change: Write[Any]
    then: Callable[[Any], None] | None
    future: Future[Any]


class Database:
    """Reads from any thread; writes are queued to the one writer."""

    def __init__(self, engine: Engine, only_user: Connection | None) -> None:
        self._engine = engine
        self._only_user = only_user
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_forever, name="database-writer")
        self._writer.daemon = True
        self._writer.start()

    @contextmanager
    def read(self) -> Generator[Connection]:
        """A connection that sees what was committed."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise in_words(error) from error

    def write(self, change: Write[T], then: Callable[[T], None] | None = None) -> T:
        """Run `change` in a transaction and return its result once that is on disk.

        `then` is called with the result in the order of commits: what it keeps in memory is
        never older than what a later write sees."""
        future: Future[T] = Future()
        self._waiting.put(_Waiting(change, then, future))
        return future.result(timeout=_WRITE_LIMIT_S)

    def write_later(self, change: Write[Any]) -> None:
        """Queue a change that nobody waits for and that may be lost, such as a coarse time of use."""
        self._waiting.put(_Waiting(change, None, Future()))

    def close(self) -> None:
        """Finish what is queued, then let go."""
        self._waiting.put(None)
        self._writer.join(timeout=_WRITE_LIMIT_S)
        if self._only_user is not None:
            self._only_user.close()
        self._engine.dispose()

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
        done: list[tuple[_Waiting, Any]] = []
        try:
            self._keep_claim()
            with self._engine.connect() as plain:
                connection = plain.execution_options(jumar_writes=True)
                with connection.begin():
                    for waiting in batch:
                        self._apply(connection, waiting, done)
        except (SQLAlchemyError, JumarError) as error:
            log.warning("a transaction of %d writes was taken back: %s", len(batch), error)
            words = error if isinstance(error, JumarError) else in_words(error)
            for waiting in batch:
                if not waiting.future.done():
                    waiting.future.set_exception(words)
            return
        for waiting, result in done:
            if waiting.then is not None:
                waiting.then(result)
            waiting.future.set_result(result)

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

    @staticmethod
    def _apply(connection: Connection, waiting: _Waiting, done: list[tuple[_Waiting, Any]]) -> None:
        savepoint = connection.begin_nested()
        try:
            result = waiting.change(connection)
        except SQLAlchemyError as error:
            try:
                savepoint.rollback()
            except SQLAlchemyError:
                # A full disk takes back the whole transaction; the first error says why.
                raise error from None
            waiting.future.set_exception(in_words(error))
        except Exception as error:  # noqa: BLE001  it is the caller's, who gets it from the future
            savepoint.rollback()
            waiting.future.set_exception(error)
        else:
            savepoint.commit()
            done.append((waiting, result))


def open_database(url: str) -> Database:
    """Open the database at `url`, bring its tables up to date, and start its writer."""
    engine = _engine(url)
    only_user: Connection | None = None
    try:
        only_user = _claim(engine)
        _migrate(engine)
    except (SQLAlchemyError, JumarError) as error:
        if only_user is not None:
            only_user.close()
        engine.dispose()
        if isinstance(error, JumarError):
            raise
        raise in_words(error) from error
    return Database(engine, only_user)


def in_words(error: SQLAlchemyError) -> JumarError:
    """What the database's own error means for a person."""
    cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    lowered = cause.lower()
    if "disk is full" in lowered or "no space left" in lowered or "disk i/o error" in lowered:
        return StorageFull(
            f"no room left for the platform's database: {cause}", hint="free some disk space"
        )
    if "readonly" in lowered or "unable to open" in lowered:
        return HomeUnusable(
            f"the platform's database cannot be written: {cause}",
            hint="give JUMAR_HOME a folder that you may write",
        )
    return HomeUnusable(f"the database answered: {cause}")


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "postgresql":
            return create_engine(
                parsed.set(drivername="postgresql+psycopg"), pool_size=10, pool_pre_ping=True
            )
        if parsed.get_backend_name() != "sqlite":
            raise BadInput(
                f"no support for {parsed.get_backend_name()!r} as a database",
                hint="write sqlite:////path/to/file or postgresql://user@host/name",
            )
        engine = create_engine(parsed, poolclass=QueuePool, pool_size=10, max_overflow=40)
    except (ArgumentError, ValueError) as error:
        raise BadInput(f"not a database address: {url.split('@')[-1]!r}") from error
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise HomeUnusable(
            "PostgreSQL needs a driver", hint="pip install 'jumar[postgres]'"
        ) from error
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    # The driver's own BEGIN comes too late for savepoints; `_begin_sqlite` says it instead.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("jumar_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _claim(engine: Engine) -> Connection | None:
    # SQLite lies in a home that the server has locked; a PostgreSQL address can be given twice.
    if engine.dialect.name != "postgresql":
        return None
    connection = engine.connect()
    held = connection.execute(text("SELECT pg_try_advisory_lock(:n)"), {"n": _ADVISORY_LOCK})
    if not held.scalar_one():
        connection.close()
        raise HomeUnusable("another jumar server works on this database", hint="stop it first")
    connection.commit()
    return connection


def _migrate(engine: Engine) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    script = ScriptDirectory.from_config(config)
    with engine.connect() as plain:
        connection = plain.execution_options(jumar_writes=True)
        with connection.begin():
            current = MigrationContext.configure(connection).get_current_revision()
            known = {revision.revision for revision in script.walk_revisions()}
            if current is not None and current not in known:
                raise HomeUnusable(
                    f"this database was written by a newer jumar (its form is {current!r})",
                    hint="upgrade jumar, or set JUMAR_HOME to another folder",
                )
            if current == script.get_current_head():
                return
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
