"""Which job somebody means: one's own first, others' only by id or by `user/name`."""

import re
from collections.abc import Generator

import pytest

from jumar.database.access import Database, open_database
from jumar.errors import BadInput, NotFound
from jumar.jobs import ledger
from jumar.jobs.finding import resolve
from jumar.spec.job import JobSpec


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    database = open_database(database_url)
    yield database
    database.close()


@pytest.fixture
def ids(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the next jobs are called; random ones once it is empty."""
    given: list[str] = []
    real = ledger.new_id
    monkeypatch.setattr("jumar.jobs.ledger.new_id", lambda: given.pop(0) if given else real())
    return given


def submit(database: Database, user: str, name: str) -> str:
    spec = JobSpec.model_validate({"name": name, "command": "true"})
    row, _ = database.write(
        lambda c: ledger.insert_job(c, user=user, spec=spec, notes=(), key=None, now=0.0)
    )
    return row.id


def find(
    database: Database, job: str, user: str, owner: str | None = None, *, sees_all: bool = False
) -> str:
    with database.read() as connection:
        return resolve(connection, job, user=user, owner=owner, sees_all=sees_all)


def test_a_name_means_the_newest_of_ones_own_whatever_others_submit(database: Database) -> None:
    submit(database, "ann", "train")
    mine = submit(database, "ann", "train")
    submit(database, "bob", "train")
    assert find(database, "train", "ann") == mine
    assert find(database, "train", "ann", sees_all=True) == mine


def test_a_plain_name_of_somebody_else_is_no_job_and_only_an_administrator_is_told_whose(
    database: Database,
) -> None:
    submit(database, "bob", "train")
    submit(database, "carl", "train")
    with pytest.raises(NotFound) as member:
        find(database, "train", "ann")
    assert "bob" not in f"{member.value} {member.value.hint}"
    with pytest.raises(NotFound) as administrator:
        find(database, "train", "root", sees_all=True)
    assert "bob/train, carl/train" in str(administrator.value.hint)


def test_user_and_name_is_the_newest_that_this_user_calls_so(database: Database) -> None:
    submit(database, "bob", "train")
    newest = submit(database, "bob", "train")
    submit(database, "root", "train")
    assert find(database, "train", "root", "bob", sees_all=True) == newest
    assert find(database, newest[:6], "root", "bob", sees_all=True) == newest
    assert find(database, newest, "root", "bob", sees_all=True) == newest
    with pytest.raises(NotFound, match="bob/eval"):
        find(database, "eval", "root", "bob", sees_all=True)


def test_a_whole_id_is_found_whoever_asks(database: Database) -> None:
    job = submit(database, "bob", "train")
    assert find(database, job, "ann") == job


def test_the_beginning_of_an_id_means_ones_own_and_for_administrators_anybodys(
    database: Database, ids: list[str]
) -> None:
    ids += ["abcdef0001", "abcdef0002", "xyzxyz0001"]
    theirs, mine, alone = (submit(database, user, "train") for user in ("bob", "root", "bob"))
    assert find(database, "abcdef", "root", sees_all=True) == mine
    assert find(database, "xyz", "root", sees_all=True) == alone
    assert find(database, "abcdef", "bob") == theirs
    with pytest.raises(NotFound):
        find(database, "xyz", "ann")


def test_the_beginning_of_several_of_ones_own_is_refused(
    database: Database, ids: list[str]
) -> None:
    ids += ["abcdefgh01", "abcdefgh02"]
    submit(database, "ann", "x")
    submit(database, "ann", "x")
    with pytest.raises(BadInput, match="abcdefgh01, abcdefgh02"):
        find(database, "abcdefgh", "ann")
    assert find(database, "abcdefgh02", "ann") == "abcdefgh02"


def test_a_whole_name_comes_before_the_beginning_of_an_id(
    database: Database, ids: list[str]
) -> None:
    ids += ["bert000001", "zzz0000001"]
    submit(database, "ann", "other")
    named = submit(database, "ann", "bert")
    assert find(database, "bert", "ann") == named


@pytest.mark.parametrize(
    "job", ["", "nope", "zz", "%", "../x", "a" * 10_000, "x' OR 1=1 --", "名", "a\0b", "\ud800"]
)
@pytest.mark.parametrize("owner", [None, "bob", "b\0b", "\ud800"])
def test_what_is_no_job_is_not_found(database: Database, job: str, owner: str | None) -> None:
    submit(database, "bob", "train")
    with pytest.raises(NotFound):
        find(database, job, "ann", owner, sees_all=True)


def test_changes_are_made_by_the_whole_id_only(database: Database) -> None:
    job = submit(database, "bob", "train")
    for not_an_id in ("train", job[:6]):
        with pytest.raises(NotFound, match=re.escape(not_an_id)):
            database.write(lambda c, name=not_an_id: ledger.ask_to_stop(c, name, 0.0))
