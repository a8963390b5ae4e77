"""Removing ended jobs: what goes, what stays, and what a crash in the middle leaves."""

import hashlib
import os
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.tars import tar_of
from tests.waiting import wait_for, wait_for_job

from jumar.database.access import Database, open_database
from jumar.engine.memory import MemoryEngine
from jumar.engine.shared.jobfiles import SharedFiles
from jumar.errors import Conflict, JumarError, NotFound
from jumar.jobs import ledger
from jumar.jobs.service import JobService
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.records import StagingRecord
from jumar.spec.states import JobState

OUT = {"train_url": "obs://lab/out"}


class Home:
    """A service that can be killed, in effect, between any two lines."""

    def __init__(self, url: str, home: Path) -> None:
        self.url, self.home = url, home
        self.jobs = home / "jobs"
        self.engine = MemoryEngine((Card(DeviceKind.SIM, 0),))
        self.open()

    def open(self) -> None:
        self.database: Database = open_database(self.url)
        self.service = JobService(
            database=self.database, engine=self.engine, home=self.home, tick_s=0.02
        )
        self.service.start()

    def start_again(self) -> None:
        self.service.close()
        self.open()

    def submit(self, user: str = "ann", **fields: object) -> str:
        values = {"name": "x", "command": "true", "device": "sim:1", **fields}
        return self.service.submit(JobSpec.model_validate(values), user=user).id

    def ended(self, user: str = "ann", **fields: object) -> str:
        """A job that has run and left a folder."""
        job = self.submit(user, **fields)
        wait_for(lambda: (job, 1) in self.engine.started())
        (self.jobs / job / "logs").mkdir(parents=True)
        (self.jobs / job / "logs" / "rank0.log").write_text("line\n")
        self.engine.finish(job)
        wait_for(lambda: self.service.get(job).state is JobState.SUCCEEDED)
        return job

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.jobs.iterdir())


@pytest.fixture
def home(database_url: str, tmp_path: Path) -> Generator[Home]:
    made = Home(database_url, tmp_path)
    yield made
    made.service.close()


def test_removals_of_one_user_do_not_wait_for_those_of_another(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, second, other = home.ended("ann"), home.ended("ann"), home.ended("ben")
    gate = threading.Event()
    delete = SharedFiles.delete

    def slow(files: SharedFiles, job_id: str) -> None:
        if job_id == stuck:
            assert gate.wait(60)
        delete(files, job_id)

    monkeypatch.setattr(SharedFiles, "delete", slow)
    for job in (stuck, second, other):
        home.service.remove(job)
    wait_for(lambda: f".removed-{other}" not in home.folders())
    assert {f".removed-{stuck}", f".removed-{second}"} <= set(home.folders()), "in their order"
    gate.set()
    wait_for(lambda: not home.folders())


def test_a_job_goes_with_its_attempts_and_its_folder_and_others_stay(home: Home) -> None:
    gone, kept = home.ended(), home.ended()
    version = home.service.version
    home.service.remove(gone)
    assert home.service.version > version
    wait_for(lambda: home.folders() == [kept])
    with pytest.raises(NotFound):
        home.service.get(gone)
    with pytest.raises(NotFound):
        home.service.remove(gone)
    page = home.service.page()
    assert ([job.id for job in page.jobs], page.total) == ([kept], 1)
    # The next job may get the number of the one that was the last, and nothing of it.
    home.service.remove(kept)
    removed_at = time.time()
    # It may have begun already.
    attempts = home.service.get(home.submit()).attempts
    assert all(attempt.created_at >= removed_at for attempt in attempts)


def test_uploaded_code_inputs_and_outputs_elsewhere_stay(home: Home, tmp_path: Path) -> None:
    data = tar_of(train="print()")
    digest = hashlib.sha256(data).hexdigest()
    home.service.archives.receive(digest, iter([data]))
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "sub").mkdir(parents=True)
    (elsewhere / "sub" / "model").write_text("weights")
    cached = tmp_path / "cached"
    cached.write_text("bytes")
    cached.chmod(0o444)
    job = home.ended(code={"archive": digest})
    (home.jobs / job / "inputs").mkdir()
    (home.jobs / job / "inputs" / "data_url").symlink_to(elsewhere)
    os.link(cached, home.jobs / job / "inputs" / "linked")
    (home.jobs / job / "inputs").chmod(0o500)
    home.service.remove(job)
    wait_for(lambda: home.folders() == [])
    assert (elsewhere / "sub" / "model").read_text() == "weights"
    assert (cached.read_text(), cached.stat().st_mode & 0o777) == ("bytes", 0o444)
    assert home.service.archives.has(digest)


def test_a_job_that_is_not_over_is_refused_and_keeps_its_folder(home: Home) -> None:
    job = home.submit()
    waiting = home.submit()
    wait_for(lambda: home.service.get(job).state is JobState.RUNNING)
    (home.jobs / job).mkdir(parents=True)
    for refused in (job, waiting):
        with pytest.raises(Conflict, match="only jobs that have ended") as caught:
            home.service.remove(refused)
        assert caught.value.hint == f"end it first: jumar stop {refused}"
    assert home.folders() == [job]
    # One that never ran has no folder.
    home.service.stop(waiting)
    home.service.remove(waiting)
    assert home.service.page().total == 1


def test_results_that_are_only_here_are_not_removed(home: Home) -> None:
    job = home.submit(outputs=OUT)
    wait_for(lambda: (job, 1) in home.engine.started())
    home.engine.stage(job, StagingRecord(phase="not-uploaded"))
    home.engine.finish(job)
    # Where its data is can be seen before its end.
    wait_for_job(home.service, job, lambda one: one.state.is_final and one.not_uploaded)
    with pytest.raises(Conflict, match="not yet uploaded") as caught:
        home.service.remove(job)
    assert caught.value.hint == f"send them first: jumar jobs upload {job}"
    home.service.upload(job)
    wait_for(lambda: not home.service.get(job).not_uploaded)
    home.service.remove(job)
    assert home.service.page().total == 0


def test_a_crash_before_the_rows_are_deleted_gives_the_folder_back(home: Home) -> None:
    job = home.ended()
    (home.jobs / job).rename(home.jobs / f".removed-{job}")
    home.start_again()
    assert home.folders() == [job]
    assert (home.jobs / job / "logs" / "rank0.log").read_text() == "line\n"


def test_a_crash_after_the_rows_are_deleted_ends_with_the_folder_deleted(home: Home) -> None:
    job, kept = home.ended(), home.ended()
    (home.jobs / job).rename(home.jobs / f".removed-{job}")
    home.database.write(lambda c: ledger.delete_job(c, job))
    home.start_again()
    wait_for(lambda: home.folders() == [kept])


def test_a_database_that_refuses_leaves_the_job_whole(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = home.ended()

    def refuse(*_: object) -> None:
        raise JumarError("the database answered: no")

    monkeypatch.setattr(ledger, "delete_job", refuse)
    with pytest.raises(JumarError, match="no"):
        home.service.remove(job)
    assert home.folders() == [job]
    assert home.service.get(job).state is JobState.SUCCEEDED


def test_folders_that_no_job_is_known_of_are_left_alone(home: Home) -> None:
    """Another database may know them: only what was set aside for it is ever deleted."""
    (home.jobs / "k7x2m9q4tb").mkdir(parents=True)
    home.start_again()
    assert home.folders() == ["k7x2m9q4tb"]


def test_a_folder_that_was_moved_to_another_disk_is_left_there(home: Home, tmp_path: Path) -> None:
    job = home.ended()
    (home.jobs / job).rename(tmp_path / "moved")
    (home.jobs / job).symlink_to(tmp_path / "moved")
    home.service.remove(job)
    wait_for(lambda: home.folders() == [])
    assert (tmp_path / "moved" / "logs" / "rank0.log").exists()
