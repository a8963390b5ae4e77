"""A database that is away, slow, locked or gone: nothing is lost, and it is said once."""

import logging
import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, insert
from sqlalchemy import text as sql_text
from tests.database.test_database import add_user, names
from tests.jobs.conftest import Platform
from tests.waiting import wait_for

from jumar.database import access as database_module
from jumar.database.access import open_database
from jumar.database.tables import users
from jumar.errors import DatabaseAway, DatabaseLost
from jumar.spec.states import JobState

LIMIT_S = 180.0


def rename_table(url: str, name: str, to: str) -> None:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(sql_text(f"ALTER TABLE {name} RENAME TO {to}"))
    engine.dispose()


def test_a_start_that_could_not_be_written_down_is_tried_again(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    platform = Platform(database_url, tmp_path)
    try:
        rename_table(database_url, "attempts", "gone")
        with caplog.at_level(logging.INFO):
            job = platform.submit()
            wait_for(
                lambda: any(
                    "a pass over the jobs" in m and "works again" not in m for m in caplog.messages
                )
            )
        rename_table(database_url, "gone", "attempts")
        # Nobody submits another one.
        platform.wait(job, JobState.RUNNING)
    finally:
        platform.service.close()


def test_a_trouble_that_lasts_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path / 'jumar.db'}"
    platform = Platform(url, tmp_path)
    try:
        with caplog.at_level(logging.INFO):
            rename_table(url, "attempts", "gone")
            job = platform.submit()
            wait_for(
                lambda: any(
                    "a pass over the jobs" in m and "works again" not in m for m in caplog.messages
                )
            )
            platform.settle()
            rename_table(url, "gone", "attempts")
            platform.wait(job, JobState.RUNNING)
            wait_for(lambda: any("works again" in m for m in caplog.messages))
        assert (
            len(
                [
                    m
                    for m in caplog.messages
                    if "a pass over the jobs" in m and "works again" not in m
                ]
            )
            == 1
        )
    finally:
        platform.service.close()


def test_a_log_that_grows_is_never_taken_for_one_that_was_cut(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'jumar.db'}")
    over, lost = threading.Event(), list[DatabaseLost]()

    def look() -> None:
        while not over.is_set():
            try:
                database.check()
            except DatabaseLost as error:
                lost.append(error)

    lookers = [threading.Thread(target=look) for _ in range(4)]
    for looker in lookers:
        looker.start()
    for number in range(200):
        add_user(database, f"user{number}")
    over.set()
    for looker in lookers:
        looker.join()
    database.close()
    assert lost == []


def removed(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    other = path.with_name("other.db")
    open_database(f"sqlite:///{other}").close()
    other.replace(path)


def overwritten(path: Path) -> None:
    path.write_bytes(b"this is a diary\n" * 1000)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def copied_over(path: Path) -> None:
    other = path.with_name("other.db")
    open_database(f"sqlite:///{other}").close()
    shutil.copyfile(other, path)


def log_removed(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def log_cut(path: Path) -> None:
    os.truncate(path.with_name(f"{path.name}-wal"), 0)


@pytest.mark.parametrize(
    "harm", [removed, replaced, overwritten, emptied, copied_over, log_removed, log_cut]
)
def test_nothing_is_accepted_once_the_file_is_gone(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "jumar.db"
    database = open_database(f"sqlite:///{path}")
    add_user(database, "ann")
    harm(path)
    with pytest.raises(DatabaseLost) as caught:
        add_user(database, "bob")
    assert "jumar repair" in (caught.value.hint or "")
    with pytest.raises(DatabaseLost):
        names(database)
    database.close()


def test_a_file_that_goes_while_it_is_written_to_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "jumar.db"
    database = open_database(f"sqlite:///{path}")

    def change(connection: Connection) -> None:
        connection.execute(insert(users).values(name="ann", role="member", created_at=0.0))
        path.unlink()

    with pytest.raises(DatabaseLost):
        database.write(change)
    database.close()


def test_a_file_that_comes_back_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "jumar.db"
    database = open_database(f"sqlite:///{path}")
    add_user(database, "ann")
    path.rename(tmp_path / "moved")
    with pytest.raises(DatabaseLost):
        add_user(database, "bob")
    (tmp_path / "moved").rename(path)
    add_user(database, "bob")
    assert names(database) == {"ann", "bob"}
    database.close()


def test_a_file_that_cannot_be_looked_at_is_not_called_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jumar.db"
    database = open_database(f"sqlite:///{path}")
    real, failures = os.stat, [OSError(24, "Too many open files")] * 3

    def stat(target: object, **more: object) -> os.stat_result:
        if target == path and failures:
            raise failures.pop()
        return real(target, **more)  # pyright: ignore[reportCallIssue, reportArgumentType]

    monkeypatch.setattr(os, "stat", stat)
    add_user(database, "ann")
    assert not failures
    assert names(database) == {"ann"}
    database.close()


def test_a_database_that_another_program_locks_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "jumar.db"
    database = open_database(f"sqlite:///{path}")
    holder = sqlite3.connect(path, isolation_level=None)
    with closing(holder), caplog.at_level(logging.INFO):
        holder.execute("BEGIN IMMEDIATE")
        writer = threading.Thread(target=add_user, args=(database, "ann"))
        writer.start()
        # Longer than SQLite itself waits.
        wait_for(lambda: any("locked" in message for message in caplog.messages))
        holder.execute("ROLLBACK")
        writer.join(timeout=LIMIT_S)
    assert names(database) == {"ann"}
    assert len([message for message in caplog.messages if "locked" in message]) == 1
    database.close()


def restart_postgres(url: str) -> None:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        folder = connection.execute(sql_text("SHOW data_directory")).scalar_one()
        version = int(connection.execute(sql_text("SHOW server_version_num")).scalar_one()) // 10000
    engine.dispose()
    command = [f"/usr/lib/postgresql/{version}/bin/pg_ctl", "-D", str(folder), "-w", "-t", "240"]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
    subprocess.run(
        [*command, "-m", "fast", "-l", f"{folder}/../log", "restart"],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=300,
    )


def test_a_restarted_postgresql_costs_no_write(postgres_url: str) -> None:
    database = open_database(postgres_url)
    unsure: set[str] = set()
    over = threading.Event()
    written: list[str] = []

    def write_on() -> None:
        while not over.is_set():
            name = f"user{len(written)}"
            try:
                add_user(database, name)
            except DatabaseAway as error:
                if "may or may not" not in error.message:
                    # Restarting took longer than the writer's patience; nothing was written, or
                    # the same name would be refused now.
                    continue
                # Cut in the middle of a commit: then nobody can know, and that is said.
                unsure.add(name)
            written.append(name)

    writer = threading.Thread(target=write_on)
    writer.start()
    wait_for(lambda: len(written) > 3)
    restart_postgres(postgres_url)
    count = len(written)
    wait_for(lambda: len(written) > count + 3)
    over.set()
    writer.join(timeout=LIMIT_S)
    assert names(database) | unsure == set(written)
    database.close()


def test_a_write_that_nobody_waits_for_any_more_is_not_done_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_PATIENCE_S", 0.0)
    database = open_database(f"sqlite:///{tmp_path / 'jumar.db'}")
    begun, go_on = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        begun.set()
        assert go_on.wait(LIMIT_S)

    first = threading.Thread(target=database.write, args=(slow,))
    first.start()
    assert begun.wait(LIMIT_S)
    with pytest.raises(DatabaseAway, match="nothing was changed"):
        database.write(
            lambda c: c.execute(insert(users).values(name="late", role="x", created_at=0.0)),
            limit_s=0.1,
        )
    go_on.set()
    first.join(timeout=LIMIT_S)
    add_user(database, "ann")
    assert names(database) == {"ann"}
    database.close()


def test_a_write_that_is_under_way_is_not_called_undone(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'jumar.db'}")
    go_on = threading.Event()

    def slow(connection: Connection) -> None:
        connection.execute(insert(users).values(name="ann", role="x", created_at=0.0))
        assert go_on.wait(LIMIT_S)

    with pytest.raises(DatabaseAway, match="may or may not"):
        database.write(slow, limit_s=0.1)
    go_on.set()
    wait_for(lambda: names(database) == {"ann"})
    database.close()


def test_a_lost_database_is_said_once_and_before_anybody_asks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    platform = Platform(f"sqlite:///{tmp_path / 'jumar.db'}", tmp_path)
    try:
        with caplog.at_level(logging.INFO):
            (tmp_path / "jumar.db").unlink()
            wait_for(lambda: any("was removed" in message for message in caplog.messages))
            platform.settle()
            assert len([m for m in caplog.messages if "was removed" in m]) == 1
            platform.service.recovery.repair(dry=False)
            wait_for(lambda: any("works again" in m for m in caplog.messages))
    finally:
        platform.service.close()
