"""A job that cannot be started says why while that is tried again, can be stopped, and is given up in the end."""

import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.engine.conftest import make_attempt
from tests.waiting import wait_for_job

from jumar.database.access import open_database
from jumar.engine.base import Attempt, Observation, StartHindered
from jumar.engine.local.engine import LocalEngine
from jumar.engine.memory import MemoryEngine
from jumar.errors import EngineFailed
from jumar.jobs import engines
from jumar.jobs.patience import Hindered
from jumar.jobs.service import JobService
from jumar.launch.jobdir.trouble import Trouble
from jumar.spec.causes import Cause
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.states import AttemptState, JobState
from jumar.words.reasons import cause_sentence, reason

LIMIT_S = 180.0
CARDS = (Card(DeviceKind.SIM, 0),)


class Personal:
    """A server's jobs, whose folders are on a small disk."""

    def __init__(self, home: Path) -> None:
        self.disk = home / "jobs"
        self.disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(self.disk)]
        if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
            pytest.skip("only root can mount a small file system")
        self.service = JobService(
            database=open_database(f"sqlite:///{home}/jumar.db"),
            engine=LocalEngine(home, CARDS),
            home=home,
            tick_s=0.05,
        )
        self.service.start()

    def fill(self) -> None:
        dd = ["dd", "if=/dev/zero", f"of={self.disk}/big", "bs=4k"]
        assert subprocess.run(dd, check=False, capture_output=True).returncode != 0

    def remount(self, how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", str(self.disk)], check=True)

    def submit(self) -> str:
        values = {"name": "x", "command": "true", "device": "sim:1", "retries": 0}
        return self.service.submit(JobSpec.model_validate(values), user="ann").id

    def close(self) -> None:
        self.service.close()
        subprocess.run(["umount", "-l", str(self.disk)], check=True)


@pytest.fixture
def personal(tmp_path: Path) -> Generator[Personal]:
    made = Personal(tmp_path)
    yield made
    made.close()


def test_a_full_disk_is_told_on_the_job_until_there_is_room(personal: Personal) -> None:
    personal.fill()
    job = personal.submit()
    told = wait_for_job(personal.service, job, lambda record: record.cause is not None)
    assert (told.state, told.cause) == (JobState.STARTING, Cause.FOLDER_FULL)
    assert str(told.values["folder"]).startswith(str(personal.disk / job))
    english, chinese = reason(told, "en"), reason(told, "zh")
    assert english is not None
    assert chinese is not None
    assert f"no room left in {told.values['folder']}" in english
    assert "tried again for 600 s" in english
    assert f"{told.values['folder']} 空间不足" in chinese
    (personal.disk / "big").unlink()
    ended = wait_for_job(personal.service, job, lambda record: record.state.is_final)
    assert (ended.state, ended.attempt) == (JobState.SUCCEEDED, 1)


def test_a_closed_disk_is_told_and_the_job_can_be_stopped(personal: Personal) -> None:
    personal.remount("ro")
    job = personal.submit()
    told = wait_for_job(personal.service, job, lambda record: record.cause is not None)
    assert (told.state, told.cause) == (JobState.STARTING, Cause.FOLDER_CLOSED)
    assert told.values["folder"] == str(personal.disk)
    personal.service.stop(job)
    ended = wait_for_job(personal.service, job, lambda record: record.state.is_final)
    assert (ended.state, ended.cause) == (JobState.STOPPED, Cause.STOPPED)
    # Its card is free again.
    personal.remount("rw")
    after = personal.submit()
    assert (
        wait_for_job(personal.service, after, lambda record: record.state.is_final).state
        is JobState.SUCCEEDED
    )


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "START_LIMIT_S", 0.3)


@pytest.mark.usefixtures("impatient")
def test_a_start_is_given_up_in_the_end(personal: Personal) -> None:
    personal.fill()
    job = personal.submit()
    ended = wait_for_job(personal.service, job, lambda record: record.state.is_final)
    assert (ended.state, ended.cause) == (JobState.FAILED, Cause.FOLDER_FULL)
    said = reason(ended, "en")
    assert said is not None
    assert said.endswith("jumar rerun")
    assert "limit_s" not in ended.values


class Away(MemoryEngine):
    """An engine that starts nothing before it answers again."""

    answers = False
    tries = 0
    kills = 0

    def start(self, attempt: Attempt) -> None:
        self.tries += 1
        if not self.answers:
            raise EngineFailed("root's program does not answer: Connection refused")
        super().start(attempt)

    def kill(self, attempt: Attempt) -> None:
        self.kills += 1
        super().kill(attempt)


def test_an_engine_that_does_not_answer_is_told_on_the_job(tmp_path: Path) -> None:
    engine = Away(CARDS)
    database = open_database(f"sqlite:///{tmp_path}/jumar.db")
    service = JobService(database=database, engine=engine, home=tmp_path, tick_s=0.05)
    service.start()
    try:
        spec = JobSpec.model_validate({"name": "x", "command": "true", "device": "sim:1"})
        job = service.submit(spec, user="ann").id
        told = wait_for_job(service, job, lambda record: record.cause is not None)
        assert (told.state, told.cause) == (JobState.STARTING, Cause.START_FAILS)
        assert "does not answer" in str(told.values["error"])
        engine.answers = True
        running = wait_for_job(service, job, lambda record: record.state is JobState.RUNNING)
        assert running.cause is None
    finally:
        service.close()


def test_what_waits_for_a_quota_waits_and_fails_in_the_end(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path, "true", cards=())
    values: dict[str, str | int] = {"engine": "Kubernetes", "error": "ExceededQuota, few"}
    error = StartHindered(Trouble(Cause.PENDING.value, "no room", values))
    seen = Observation(job_id=attempt.job_id, number=1, state=AttemptState.STARTING)
    for limit_s, state, cause, sign in (
        (60.0, AttemptState.STARTING, Cause.PENDING, "waiting in the queue of Kubernetes: a quota"),
        (-1.0, AttemptState.FAILED, Cause.START_FAILS, "could not be started: ExceededQuota, few"),
    ):
        hindered = Hindered(limit_s)
        hindered.met(attempt, error)
        told = hindered.corrected(seen)
        assert (told.state, told.cause) == (state, cause)
        assert sign in str(cause_sentence(told.cause, told.values, "en"))


def test_the_time_limit_does_not_run_before_the_start_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Away(CARDS)
    database = open_database(f"sqlite:///{tmp_path}/jumar.db")
    service = JobService(database=database, engine=engine, home=tmp_path, tick_s=0.05)
    service.start()
    try:
        values = {"name": "x", "command": "true", "device": "sim:1", "time_limit": "1h"}
        job = service.submit(JobSpec.model_validate(values), user="ann").id
        wait_for_job(service, job, lambda record: record.cause is not None)
        with monkeypatch.context() as late:
            # As if all of its time had passed since.
            late.setattr(engines, "OVERDUE_S", -1e6)
            tries = engine.tries
            wait_for_job(service, job, lambda _: engine.tries > tries + 3)
            assert engine.kills == 0
        engine.answers = True
        wait_for_job(service, job, lambda record: record.state is JobState.RUNNING)
        assert engine.kills == 0
    finally:
        service.close()
