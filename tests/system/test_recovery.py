"""The database of a real server is removed, restored and repaired while real jobs run."""

import json
import sqlite3
from collections.abc import Generator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.cli.conftest import Jumar, caller
from tests.ports import free_port
from tests.waiting import wait_for

LIMIT_S = 180.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def jumar(jumar_program: str, home: Path, tmp_path: Path) -> Generator[Jumar]:
    plain = caller(jumar_program, home, tmp_path)
    port = str(free_port())

    yield partial(plain, JUMAR_PORT=port)
    plain("down", rc=None)


def submit(jumar: Jumar, name: str, gate: Path, ran: Path) -> str:
    """A job that tells when it runs, and ends when the gate is there."""
    script = f"echo {name} >> {ran}; until [ -e {gate} ]; do sleep 0.05; done"
    return json.loads(jumar("run", "--name", name, "--json", "--", "sh", "-c", script).stdout)["id"]


def show(jumar: Jumar, job: str) -> dict[str, object]:
    return json.loads(jumar("show", "--json", job).stdout)


def _without_time(line: str) -> str:
    return line.split(" ", 2)[2]


def test_a_removed_database_costs_nothing_that_runs(
    jumar: Jumar, home: Path, tmp_path: Path
) -> None:
    gate, ran = tmp_path / "gate", tmp_path / "ran"
    first = submit(jumar, "first", gate, ran)
    second = submit(jumar, "second", tmp_path / "never", ran)
    wait_for(lambda: ran.exists() and len(ran.read_text().split()) == 2)
    (home / "jumar.db").unlink()

    refused = jumar("run", "--", "true", rc=2)
    assert "was removed" in refused.stderr
    assert "jumar repair" in refused.stderr
    # One ends while nothing can be written down, the other goes on.
    gate.touch()
    wait_for(lambda: (home / "jobs" / first / "attempts" / "1" / "result.json").exists())

    told = jumar("repair")
    assert "nothing was changed" in told.stderr
    assert not (home / "jumar.db").exists()
    report = json.loads(jumar("repair", "--yes", "--json").stdout)
    assert (report["is_done"], report["salvaged"]) == (True, True)
    wait_for(lambda: show(jumar, first)["state"] == "succeeded")
    assert show(jumar, second)["state"] == "running"
    jumar("run", "--follow", "--", "true")
    jumar("stop", second)
    wait_for(lambda: show(jumar, second)["state"] == "stopped")
    assert sorted(ran.read_text().split()) == ["first", "second"]
    # Whoever needs the database says so once, however often it is asked meanwhile.
    lines = (home / "server.log").read_text().splitlines()
    said = [_without_time(line) for line in lines if "was removed while the server runs" in line]
    assert sorted(said) == sorted(set(said))


@pytest.mark.full
def test_a_job_that_runs_is_found_by_a_server_that_starts_with_no_database(
    jumar: Jumar, home: Path, tmp_path: Path
) -> None:
    gate, ran = tmp_path / "gate", tmp_path / "ran"
    done = submit(jumar, "done", tmp_path, ran)
    job = submit(jumar, "goes-on", gate, ran)
    wait_for(lambda: ran.exists() and len(ran.read_text().split()) == 2)
    wait_for(lambda: show(jumar, done)["state"] == "succeeded")
    jumar("down")
    for path in home.glob("jumar.db*"):
        path.unlink()
    jumar("up", "--detach")
    assert show(jumar, job)["state"] in ("starting", "running")
    cards = json.loads(jumar("top", "--json").stdout)
    assert job in json.dumps(cards)
    jumar("show", done, rc=2)
    jumar("repair", "--yes")
    assert show(jumar, done)["state"] == "succeeded"
    gate.touch()
    wait_for(lambda: show(jumar, job)["state"] == "succeeded")
    assert sorted(ran.read_text().split()) == ["done", "goes-on"]


def test_backup_and_restore_with_a_server_and_without(
    jumar: Jumar, home: Path, tmp_path: Path
) -> None:
    gate, ran = tmp_path / "gate", tmp_path / "ran"
    file = tmp_path / "backup.db"
    early = submit(jumar, "early", tmp_path, ran)
    wait_for(lambda: show(jumar, early)["state"] == "succeeded")
    saved = json.loads(jumar("backup", "--json", str(file)).stdout)
    assert saved["bytes"] == file.stat().st_size
    assert file.stat().st_mode & 0o777 == 0o600
    assert "--force" in jumar("backup", str(file), rc=2).stderr
    with closing(sqlite3.connect(file)) as plain:
        assert plain.execute("SELECT id FROM jobs").fetchall() == [(early,)]

    late = submit(jumar, "late", gate, ran)
    wait_for(lambda: len(ran.read_text().split()) == 2)
    report = json.loads(jumar("restore", "--yes", "--json", str(file)).stdout)
    assert [found["id"] for found in report["found"]] == [late]
    assert show(jumar, late)["state"] in ("starting", "running")

    jumar("down")
    (home / "jumar.db").write_bytes(b"garbage " * 4096)
    assert "jumar repair" in jumar("jobs", rc=2).stderr
    jumar("restore", "--yes", str(file))
    gate.touch()
    wait_for(lambda: show(jumar, late)["state"] == "succeeded")
    assert sorted(ran.read_text().split()) == ["early", "late"]
    assert list(home.glob("jumar.db.aside-*"))


def test_a_file_that_is_no_backup_is_refused_in_words(jumar: Jumar, tmp_path: Path) -> None:
    (tmp_path / "diary").write_text("dear diary")
    assert "not a backup" in jumar("restore", "--yes", str(tmp_path / "diary"), rc=2).stderr
    assert "does not exist" in jumar("restore", "--yes", str(tmp_path / "nothing"), rc=2).stderr
