"""Backup and restore between databases of both kinds, and a restore that is killed anywhere."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.jobs.conftest import Platform

from jumar.spec.states import AttemptState, JobState

PARTS = 7
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("back", [False, True], ids=["to-postgresql", "to-sqlite"])
def test_a_backup_of_one_kind_is_restored_into_the_other(
    postgres_url: str, tmp_path: Path, back: bool
) -> None:
    urls = [f"sqlite:///{tmp_path / 'jumar.db'}", postgres_url]
    homes = [tmp_path / "one", tmp_path / "two"]
    for home in homes:
        home.mkdir()
    source_url, target_url = reversed(urls) if back else urls
    source, target = Platform(source_url, homes[0]), Platform(target_url, homes[1])
    try:
        done, waiting = source.submit("sim:8", user="ann"), source.submit("sim:8", user="bob")
        source.wait(done, JobState.RUNNING)
        source.engine.finish(
            done, AttemptState.FAILED, exit_code=3, reason="it broke", tail="last 行"
        )
        source.wait(done, JobState.FAILED)
        source.wait(waiting, JobState.RUNNING)
        target.submit(user="eve")
        source.service.recovery.backup(tmp_path / "backup")

        report = target.service.recovery.restore(tmp_path / "backup")
        assert (report.jobs, report.users) == (2, 0)
        one, other = source.service.get(done), target.service.get(done)
        assert (one.attempts, one.spec, one.reason) == (other.attempts, other.spec, other.reason)
        assert target.service.page().total == 2
        # New rows are numbered after the restored ones.
        target.submit()
        assert target.service.page(limit=1).jobs[0].user == "ann"
    finally:
        source.service.close()
        target.service.close()


def ids(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return [row[0] for row in plain.execute("SELECT id FROM jobs ORDER BY seq")]


def restore_and_kill(home: Path, backup: Path, lines: int) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tests.jobs.killed_restore", home, backup, str(lines)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_a_restore_that_is_killed_anywhere_is_done_or_not(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    platform = Platform(f"sqlite:///{first / 'jumar.db'}", first)
    old = [platform.submit("sim:1", user="ann")]
    backup = tmp_path / "backup"
    platform.service.recovery.backup(backup)
    platform.submit("sim:1", user="bob")
    now = [summary.id for summary in reversed(platform.service.page().jobs)]
    platform.service.close()

    whole = tmp_path / "whole"
    shutil.copytree(first, whole)
    shutil.copy(backup, tmp_path / "copy")
    ended = restore_and_kill(whole, tmp_path / "copy", 0)
    assert ended.returncode == 0, ended.stderr
    lines = int(ended.stdout)
    assert ids(whole / "jumar.db") == old

    for part in range(1, PARTS):
        home = tmp_path / f"home{part}"
        shutil.copytree(first, home)
        shutil.copy(backup, tmp_path / "copy")
        killed = restore_and_kill(home, tmp_path / "copy", lines * part // PARTS)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        found = ids(home / "jumar.db")
        assert found in (old, now)
        again = Platform(f"sqlite:///{home / 'jumar.db'}", home)
        assert [job.id for job in reversed(again.service.page().jobs)] == found
        assert not list(home.glob(".recovery-*"))
        again.service.close()
