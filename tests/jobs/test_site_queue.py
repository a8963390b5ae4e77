"""Jobs on an engine with a queue of its own: the site decides when they start."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.waiting import wait_for_job

from jumar.database.access import open_database
from jumar.engine.memory import MemorySite
from jumar.jobs import engines
from jumar.jobs.service import JobService
from jumar.spec.causes import Cause
from jumar.spec.job import JobSpec
from jumar.spec.records import JobRecord
from jumar.spec.states import AttemptState, JobState

LIMIT_S = 180.0


class Platform:
    """A service on such an engine."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.site = MemorySite()
        self.service = self.open()

    def open(self) -> JobService:
        database = open_database(f"sqlite:///{self.home}/jumar.db")
        service = JobService(database=database, engine=self.site, home=self.home, tick_s=0.02)
        service.start()
        return service

    def submit(self, **fields: object) -> str:
        values = {"name": "x", "command": "true", "device": "npu:64", **fields}
        return self.service.submit(JobSpec.model_validate(values), user="ann").id

    def wait(self, job: str, is_so: Callable[[JobRecord], bool]) -> JobRecord:
        return wait_for_job(self.service, job, is_so)

    def pending(self, job: str) -> JobRecord:
        return self.wait(
            job, lambda r: bool(r.attempts) and r.attempts[0].state is AttemptState.PENDING
        )


@pytest.fixture
def platform(tmp_path: Path) -> Generator[Platform]:
    made = Platform(tmp_path)
    yield made
    made.service.close()


def test_a_job_waits_in_the_queue_of_the_site_and_says_so(platform: Platform) -> None:
    jobs = [platform.submit() for _ in range(3)]
    for job in jobs:
        record = platform.pending(job)
        assert (record.state, record.cause) == (JobState.STARTING, Cause.PENDING)
        assert record.values == {"engine": "site", "error": "Priority"}
        assert record.attempts[0].cards == ()
        assert record.attempts[0].started_at is None
    assert platform.service.cards() == ()
    platform.site.begin(jobs[1])
    running = platform.wait(jobs[1], lambda record: record.state is JobState.RUNNING)
    assert (running.cause, running.attempts[0].state) == (None, AttemptState.RUNNING)
    platform.site.finish(jobs[1])
    platform.wait(jobs[1], lambda record: record.state is JobState.SUCCEEDED)
    assert platform.service.get(jobs[0]).state is JobState.STARTING


def test_what_the_site_calls_an_attempt_is_kept(platform: Platform) -> None:
    job = platform.submit()
    handle = platform.pending(job).attempts[0].handle
    assert handle == "site-1"
    platform.service.close()
    platform.service = platform.open()
    platform.site.begin(job)
    running = platform.wait(job, lambda record: record.state is JobState.RUNNING)
    assert running.attempts[0].handle == handle
    assert platform.site.started() == [(job, 1)]


def test_a_pending_job_can_be_stopped(platform: Platform) -> None:
    job = platform.submit()
    platform.pending(job)
    platform.service.stop(job, by="root")
    ended = platform.wait(job, lambda record: record.state.is_final)
    assert (ended.state, ended.cause, ended.values) == ("stopped", Cause.STOPPED, {"by": "root"})
    assert platform.site.stops[0] == (job, 1, AttemptState.STOPPED)


def test_the_time_limit_runs_from_the_start_at_the_site(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, other = platform.submit(time_limit=3600), platform.submit()
    platform.pending(job)
    platform.pending(other)
    monkeypatch.setattr(engines, "OVERDUE_S", -1e6)
    platform.site.begin(other)
    # Several passes of the conductor lie between.
    platform.wait(other, lambda record: record.state is JobState.RUNNING)
    platform.site.finish(other)
    platform.wait(other, lambda record: record.state is JobState.SUCCEEDED)
    assert platform.service.get(job).attempts[0].state is AttemptState.PENDING
    platform.site.begin(job)
    ended = platform.wait(job, lambda record: record.state.is_final)
    assert (ended.state, ended.cause) == (JobState.LOST, Cause.KILLED_BY_SERVER)


def test_a_preempted_attempt_puts_its_job_back_and_uses_no_retry(platform: Platform) -> None:
    job = platform.submit(retries=1)
    platform.pending(job)
    for number in (1, 2):
        platform.site.finish(job, AttemptState.PREEMPTED, cause=Cause.PREEMPTED)
        platform.wait(job, lambda record, number=number: record.attempt == number + 1)
    for number in (3, 4):
        platform.wait(job, lambda record, number=number: (job, number) in platform.site.started())
        platform.site.finish(job, AttemptState.FAILED, cause=Cause.EXIT_CODE, values={"code": 3})
    ended = platform.wait(job, lambda record: record.state.is_final)
    states = [attempt.state for attempt in ended.attempts]
    assert states == ["preempted", "preempted", "failed", "failed"]
    assert (ended.state, ended.cause, ended.values) == ("failed", Cause.EXIT_CODE, {"code": 3})
