import sqlite3
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine, insert, select, update
from sqlalchemy import text as sql_text

from jumar.database.access import Database, open_database
from jumar.database.tables import metadata, users
from jumar.errors import BadInput, HomeUnusable, JumarError, StorageFull


def add_user(database: Database, name: str) -> None:
    database.write(
        lambda c: c.execute(insert(users).values(name=name, role="member", created_at=0.0))
    )


def names(database: Database) -> set[str]:
    with database.read() as connection:
        return {row.name for row in connection.execute(select(users.c.name))}


def test_what_was_written_is_there_after_opening_again(database_url: str) -> None:
    database = open_database(database_url)
    add_user(database, "ann")
    database.close()

    again = open_database(database_url)
    assert names(again) == {"ann"}
    again.close()


def test_a_write_that_fails_takes_back_only_itself(database_url: str) -> None:
    database = open_database(database_url)
    barrier = threading.Barrier(20)
    failures: list[Exception] = []

    def write(number: int) -> None:
        barrier.wait(timeout=180)
        try:
            # Even numbers collide with each other, odd ones do not.
            add_user(database, "same" if number % 2 == 0 else f"user{number}")
        except HomeUnusable as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=180)

    assert names(database) == {"same", *(f"user{number}" for number in range(1, 20, 2))}
    assert len(failures) == 9
    database.close()


def test_an_error_of_the_caller_comes_back_as_it_was(database_url: str) -> None:
    database = open_database(database_url)

    def change(connection: Connection) -> None:
        connection.execute(insert(users).values(name="half", role="member", created_at=0.0))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        database.write(change)
    assert names(database) == set()
    database.close()


def test_then_is_called_in_the_order_of_commits(database_url: str) -> None:
    database = open_database(database_url)
    add_user(database, "counter")
    seen: list[float] = []

    def bump(connection: Connection) -> float:
        connection.execute(update(users).values(created_at=users.c.created_at + 1))
        return connection.execute(select(users.c.created_at)).scalar_one()

    def write() -> None:
        for _ in range(20):
            database.write(bump, then=seen.append)

    threads = [threading.Thread(target=write) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=180)
    assert seen == [float(number) for number in range(1, 101)]
    database.close()


def test_migrations_end_in_the_tables_of_the_code(database_url: str) -> None:
    open_database(database_url).close()
    address = database_url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(address)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def test_a_newer_database_is_refused_and_left_alone(database_url: str) -> None:
    open_database(database_url).close()
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(sql_text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(HomeUnusable, match="newer jumar") as caught:
        open_database(database_url)
    assert caught.value.hint is not None
    with engine.connect() as connection:
        stored = connection.execute(sql_text("SELECT version_num FROM alembic_version"))
        assert stored.scalar_one() == "9999"
    engine.dispose()


def test_two_servers_cannot_share_a_postgresql_database(postgres_url: str) -> None:
    first = open_database(postgres_url)
    with pytest.raises(HomeUnusable, match="another jumar server"):
        open_database(postgres_url)
    first.close()
    open_database(postgres_url).close()


def cut_all_connections(url: str) -> None:
    """As a restart of PostgreSQL does."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        connection.execute(
            sql_text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    engine.dispose()


def test_a_restarted_postgresql_is_still_this_servers(postgres_url: str) -> None:
    database = open_database(postgres_url)
    cut_all_connections(postgres_url)
    add_user(database, "ann")
    with pytest.raises(HomeUnusable, match="another jumar server"):
        open_database(postgres_url)
    assert names(database) == {"ann"}
    database.close()


def test_who_lost_postgresql_to_another_server_writes_no_more(postgres_url: str) -> None:
    database = open_database(postgres_url)
    cut_all_connections(postgres_url)
    other = open_database(postgres_url)
    with pytest.raises(HomeUnusable, match="another jumar server"):
        add_user(database, "ann")
    assert names(other) == set()
    other.close()
    add_user(database, "ann")
    database.close()


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "sqlite:////no/such/folder/x.db"])
def test_an_address_that_cannot_be_used_is_said_in_words(url: str) -> None:
    with pytest.raises((BadInput, HomeUnusable)) as caught:
        open_database(url)
    assert "Traceback" not in str(caught.value)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jumar.db"
    path.write_text("this is a diary, not a database\n" * 100)
    with pytest.raises(JumarError):
        open_database(f"sqlite:///{path}")
    assert path.read_text().startswith("this is a diary")


def test_a_full_disk_is_called_a_full_disk(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'jumar.db'}")

    def fill(connection: Connection) -> None:
        # SQLite's own limit on pages gives the very error that a full disk gives.
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
        rows = [
            {"name": f"u{i}" + "x" * 50, "role": "member", "created_at": 0.0} for i in range(5000)
        ]
        connection.execute(insert(users), rows)

    with pytest.raises(StorageFull):
        database.write(fill)
    assert names(database) == set()
    database.close()


def test_sqlite_is_as_durable_as_it_can_be(tmp_path: Path) -> None:
    path = tmp_path / "jumar.db"
    database = open_database(f"sqlite:///{path}")
    with database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
    database.close()
    sqlite3.connect(path).close()
