"""A lost database, backups and repairs, as clients of the server meet them."""

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from tests.older import migrate
from tests.server.conftest import Running

from jumar.database.access import open_database
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.safefile import write_json
from jumar.spec.states import JobState

ID = "abcdefghij"


@pytest.fixture
def owned(running: Running) -> Running:
    """The server of a home whose owner is root."""
    write_json(
        str(running.home / "client.json"), {"url": running.url, "token": running.token("root")}
    )
    return running


def job_folder(
    home: Path, folder: str = ID, *, result: dict[str, Any] | None = None, **changes: Any
) -> JobDir:
    """What the engine and the launcher leave of a job with one attempt."""
    directory = JobDir(str(home / "jobs" / folder), 1)
    os.makedirs(directory.attempt)
    spec = {"name": "digits", "command": ["train"], "device": "sim:2"}
    job = {"format": 1, "job_id": folder, "user": "zoe", "spec": spec, **changes}
    write_json(directory.job, job)
    write_json(directory.request, {"cards": [3, 4], "archive": None})
    if result is not None:
        write_json(directory.said, result)
    return directory


DONE = {"state": "succeeded", "cause": "done", "reason": "all ranks ended", "exit_code": 0}


def test_a_submit_to_a_lost_database_is_refused_with_a_way_on(owned: Running) -> None:
    (owned.home / "jumar.db").unlink()
    answer = owned.api("POST", "/jobs", body={"name": "x", "command": "true"})
    assert answer.status == 503
    assert "was removed" in answer.error
    assert "jumar repair" in answer.json["error"]["hint"]
    assert "was removed" in owned.api("GET", "/server").json["trouble"]
    page = owned.ask("GET", "/jobs")
    assert page.status == 503
    assert "jumar repair" in page.text
    assert page.text.startswith("<!doctype html>")
    # No new, empty file has taken its place.
    assert not (owned.home / "jumar.db").exists()


def test_a_server_without_trouble_says_so(running: Running) -> None:
    assert running.api("GET", "/server").json["trouble"] is None


def test_a_repair_puts_back_all_that_the_server_still_holds(owned: Running) -> None:
    job = owned.running_job("ann")
    waiting = owned.submit("bob", device="sim:8")
    (owned.home / "jumar.db").unlink()
    # It ends while nothing can be written down.
    owned.engine.finish(job.id)

    planned = owned.api("GET", "/repair", user="root")
    assert (planned.status, planned.json["is_done"]) == (200, False)
    assert owned.api("POST", "/jobs", body={"name": "x", "command": "true"}).status == 503
    done = owned.api("POST", "/repair", user="root")
    assert done.status == 200
    assert (done.json["is_done"], done.json["salvaged"]) == (True, True)
    assert owned.wait(job.id, JobState.SUCCEEDED)
    assert owned.wait(waiting.id, JobState.RUNNING)
    assert owned.api("POST", "/jobs", body={"name": "x", "command": "true"}).status == 201
    with closing(sqlite3.connect(owned.home / "jumar.db")) as plain:
        assert plain.execute("SELECT count(*) FROM jobs").fetchone() == (3,)


def test_a_repair_of_an_overwritten_file_takes_the_folders(owned: Running) -> None:
    job_folder(owned.home, result=DONE)
    (owned.home / "jumar.db").write_bytes(b"x" * 50_000)
    done = owned.api("POST", "/repair", user="root")
    assert done.status == 200, done.text
    assert not done.json["salvaged"]
    assert Path(done.json["set_aside"]).read_bytes() == b"x" * 50_000
    record = owned.api("GET", f"/jobs/{ID}", user="root").json
    assert (record["user"], record["name"], record["state"]) == ("zoe", "digits", "succeeded")
    roles = {u["name"]: u["role"] for u in owned.api("GET", "/users", user="root").json}
    assert roles == {"root": "admin", "zoe": "pending"}


def test_only_the_owner_may_repair_while_nobody_can_be_known(owned: Running) -> None:
    (owned.home / "jumar.db").unlink()
    assert owned.api("POST", "/repair", user=None).status == 401
    for user in ("ann", "eve"):
        assert owned.api("POST", "/repair", user=user).status == 403
        assert owned.api("PUT", "/restore", user=user, body=b"").status == 403


def test_a_backup_is_a_whole_database_that_has_what_the_log_still_had(owned: Running) -> None:
    job = owned.submit("ann")
    answer = owned.api("GET", "/backup", user="root")
    assert answer.status == 200
    path = owned.home.parent / "backup.db"
    path.write_bytes(answer.body)
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert plain.execute("SELECT id FROM jobs").fetchall() == [(job.id,)]
        assert plain.execute("SELECT count(*) FROM login_codes").fetchone() == (0,)
    # Nothing is left behind in the home.
    assert not list(owned.home.glob(".recovery-*"))


def test_a_restore_goes_back_and_forgets_nothing_that_runs(owned: Running) -> None:
    before = owned.submit("ann", device="sim:8")
    owned.wait(before.id, JobState.RUNNING)
    waiting = owned.submit("bob", device="sim:8")
    backup = owned.api("GET", "/backup", user="root").body
    late = owned.submit("ann", device="sim:1")
    owned.site.accounts.register("newcomer", "a long password")

    answer = owned.api("PUT", "/restore", user="root", body=backup)
    assert answer.status == 200, answer.text
    assert answer.json["jobs"] == 2
    users = {user["name"] for user in owned.api("GET", "/users", user="root").json}
    assert "newcomer" not in users
    assert owned.api("GET", f"/jobs/{late.id}", user="root").status == 404
    # What was there before is kept.
    with closing(sqlite3.connect(answer.json["kept"])) as plain:
        assert plain.execute("SELECT count(*) FROM jobs").fetchone() == (3,)
    assert os.stat(answer.json["kept"]).st_mode & 0o777 == 0o600
    owned.finish(before.id)
    owned.wait(waiting.id, JobState.RUNNING)


def test_a_restore_into_a_lost_database(owned: Running) -> None:
    job = owned.submit("ann")
    backup = owned.api("GET", "/backup", user="root").body
    (owned.home / "jumar.db").unlink()
    assert owned.api("PUT", "/restore", user="root", body=backup).status == 200
    assert owned.api("GET", f"/jobs/{job.id}", user="ann").status == 200
    assert owned.api("GET", "/server").json["trouble"] is None


def newer(home: Path) -> bytes:
    path = home.parent / "newer.db"
    open_database(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("UPDATE alembic_version SET version_num = '9999'")
        plain.commit()
    return path.read_bytes()


def broken_spec(home: Path) -> bytes:
    path = home.parent / "broken.db"
    open_database(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as plain:
        plain.execute(
            "INSERT INTO jobs (id, user, name, state, spec, notes, kind, count, nodes, priority,"
            " created_at, attempt) VALUES ('a', 'ann', 'x', 'queued', '{}', '[]', 'cpu', 1, 1, 1,"
            " 0, 0)"
        )
        plain.commit()
    return path.read_bytes()


def empty(_: Path) -> bytes:
    return b""


def text(_: Path) -> bytes:
    return b"a diary"


def cut(home: Path) -> bytes:
    return newer(home)[:9000]


@pytest.mark.parametrize("content", [empty, text, newer, broken_spec, cut])
def test_what_is_no_backup_is_refused_and_changes_nothing(
    owned: Running, content: Callable[[Path], bytes]
) -> None:
    job = owned.submit("ann")
    answer = owned.api("PUT", "/restore", user="root", body=content(owned.home))
    assert answer.status == 422, answer.text
    assert owned.api("GET", f"/jobs/{job.id}", user="ann").status == 200
    assert not list(owned.home.glob("before-restore-*"))


def test_a_file_whose_pages_are_damaged_is_put_back_live(owned: Running) -> None:
    backup = owned.api("GET", "/backup", user="root").body
    path = owned.home / "jumar.db"
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("PRAGMA wal_checkpoint(FULL)")
    with path.open("r+b") as file:
        for page in range(2, path.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(os.urandom(4096))
    # What is in SQLite's cache hides the damage from some; nobody is told for long that all is well.
    for _ in range(100):
        if owned.api("GET", "/jobs", user="root").status != 200:
            break
        owned.api("POST", "/jobs", user="root", body={"name": "x", "command": "true"})
    assert "damaged" in str(owned.api("GET", "/server").json["trouble"])
    answer = owned.api("PUT", "/restore", user="root", body=backup)
    assert answer.status == 200, answer.body
    assert owned.api("GET", "/server").json["trouble"] is None
    owned.submit("ann")


def test_an_older_backup_is_brought_up_to_date(owned: Running) -> None:
    path = owned.home.parent / "older.db"
    engine = create_engine(f"sqlite:///{path}")
    migrate(engine, "0001")
    engine.dispose()
    assert owned.api("PUT", "/restore", user="root", body=path.read_bytes()).status == 200
    owned.submit("ann")


def test_a_folder_whose_job_has_no_processes_takes_no_cards(owned: Running) -> None:
    # A job can make folders, too, in anybody's name.
    job_folder(owned.home)
    answer = owned.api("POST", "/repair", user="root")
    assert [job["id"] for job in answer.json["jobs"]] == [ID]
    assert owned.site.service.get(ID).state is JobState.LOST
    assert {card["job_id"] for card in owned.api("GET", "/cards").json} == {None}
    # Twice is once.
    assert owned.api("POST", "/repair", user="root").json["jobs"] == []


def test_a_job_that_went_on_since_the_backup_is_not_run_again(owned: Running) -> None:
    waiting = owned.submit("ann", device="sim:8")
    owned.wait(waiting.id, JobState.RUNNING)
    second = owned.submit("ann", device="sim:8")
    backup = owned.api("GET", "/backup", user="root").body
    job_folder(owned.home, second.id, result=DONE, user="ann")
    answer = owned.api("PUT", "/restore", user="root", body=backup)
    assert [(f["id"], f["is_new"]) for f in answer.json["found"]] == [(second.id, False)]
    assert owned.wait(second.id, JobState.SUCCEEDED).attempt == 1
    assert (second.id, 1) not in owned.engine.started()


def test_what_a_folder_tells_is_no_reason_to_run_anything(owned: Running) -> None:
    spec = {"name": "digits", "command": ["train"], "device": "sim:2", "retries": 1}
    failed = {"state": "failed", "cause": "exit-code", "reason": "rank 0 exited with code 3"}
    job_folder(owned.home, result=failed, spec=spec)
    owned.api("POST", "/repair", user="root")
    found = owned.site.service.get(ID)
    assert (found.state, len(found.attempts)) == (JobState.FAILED, 1)


def test_a_folder_of_an_older_jumar_is_understood(owned: Running) -> None:
    digest = "0" * 64
    older: dict[str, Any] = {
        "name": "digits",
        "command": ["train"],
        "code": "archive",
        "workdir": None,
        "git": None,
        "device": {"kind": "sim", "count": 2},
        "nodes": 1,
        "ranks": "device",
        "environment": {"A": "b"},
        "inputs": {},
        "outputs": {},
        "time_limit_s": 60,
        "grace_s": 30,
    }
    directory = job_folder(owned.home, result=DONE, spec=None, **older)
    write_json(directory.request, {"cards": [3, 4], "archive": f"/x/{digest}.tar"})
    assert owned.api("POST", "/repair", user="root").json["left"] == []
    spec = owned.api("GET", f"/jobs/{ID}", user="root").json["spec"]
    assert (spec["ranks"], spec["time_limit"], spec["device"]) == ("device", "1m", "sim:2")
    assert spec["code"] == {"archive": digest}


HOSTILE: dict[str, Any] = {
    "another-job": {"job_id": "zzzzzzzzzz"},
    "user-is-a-list": {"user": ["root"]},
    "user-with-escapes": {"user": "\x1b[31mroot"},
    "spec-is-text": {"spec": "x"},
    "spec-without-command": {"spec": {"name": "x"}},
    "unknown-state": {"result": {**DONE, "state": "great"}},
    "not-an-end": {"result": {**DONE, "state": "running"}},
    "text-for-a-time": {"result": {**DONE, "started_at": "yesterday"}},
    "endless-time": {"result": {**DONE, "started_at": 1e300}},
    "list-for-text": {"result": {**DONE, "reason": ["x"]}},
}


@pytest.mark.parametrize("case", HOSTILE.values(), ids=HOSTILE)
def test_a_folder_that_cannot_be_understood_is_named_and_left_alone(
    owned: Running, case: dict[str, Any]
) -> None:
    job_folder(owned.home, **case)
    job_folder(owned.home, "goodjob123", result=DONE)
    answer = owned.api("POST", "/repair", user="root")
    assert answer.status == 200, answer.text
    assert [job["id"] for job in answer.json["jobs"]] == ["goodjob123"]
    assert [Path(left["folder"]).name for left in answer.json["left"]] == [ID]


def test_text_that_no_database_takes_is_escaped(owned: Running) -> None:
    result = {**DONE, "state": "failed", "reason": "a\0b", "tail": "\ud800"}
    directory = job_folder(owned.home)
    Path(directory.said).write_text(json.dumps(result))
    owned.api("POST", "/repair", user="root")
    attempt = owned.api("GET", f"/jobs/{ID}", user="root").json["attempts"][0]
    assert (attempt["reason"], attempt["tail"]) == ("a\\x00b", "\\ud800")
