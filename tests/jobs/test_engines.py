"""One server with several engines: each job goes to its own, and none waits for the engine of another."""

import threading
from collections.abc import Callable, Generator, Iterable
from pathlib import Path

import pytest
from tests.waiting import wait_for_job

from jumar.database.access import open_database
from jumar.engine.base import Attempt, Engine, Observation
from jumar.engine.memory import MemoryEngine, MemorySite
from jumar.engine.shared.files import write_plain_files
from jumar.engine.shared.jobfiles import SharedFiles
from jumar.engine.slurm.observing import submitted_file
from jumar.errors import BadInput, EngineFailed, KeyReused, SubmitRefused
from jumar.jobs.engines import Engines
from jumar.jobs.folders import read_folders
from jumar.jobs.service import JobService
from jumar.jobs.submitting import Limits
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.news import Ending, write_ending
from jumar.launch.jobdir.safefile import write_json
from jumar.spec.causes import Cause
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.draining import Drain
from jumar.spec.job import JobSpec
from jumar.spec.records import JobRecord
from jumar.spec.states import JobState

LIMIT_S = 180.0
CARDS = tuple(Card(DeviceKind.SIM, number) for number in range(2))


class SlowSite(MemorySite):
    """A site whose controller answers only while `answers` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()

    def _wait(self) -> None:
        if not self.answers.is_set():
            self.asked.set()
            assert self.answers.wait(LIMIT_S)

    def start(self, attempt: Attempt) -> None:
        self._wait()
        super().start(attempt)

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        self._wait()
        return super().observe(attempts)


class Platform:
    """A service with cards of its own, and a site beside them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.here, self.site = MemoryEngine(CARDS), SlowSite()
        self.service = self.open(self.here, self.site)

    def open(self, *engines: Engine) -> JobService:
        self.service = JobService(
            database=open_database(f"sqlite:///{self.home}/jumar.db"),
            engine=Engines(*engines),
            home=self.home,
            limits=Limits(running=1),
            tick_s=0.02,
        )
        self.service.start()
        return self.service

    def submit(self, engine: str | None = None, key: str | None = None, **fields: object) -> str:
        values = {"name": "x", "command": "true", "device": "sim:1", **fields}
        spec = JobSpec.model_validate(values)
        return self.service.submit(spec, user="ann", engine=engine, key=key).id

    def wait(self, job: str, is_so: Callable[[JobRecord], bool]) -> JobRecord:
        return wait_for_job(self.service, job, is_so)

    def wait_until(self, job: str, state: JobState) -> JobRecord:
        return self.wait(job, lambda record: record.state is state)

    def pending(self, job: str) -> JobRecord:
        return self.wait(job, lambda record: record.cause == Cause.PENDING)


@pytest.fixture
def platform(tmp_path: Path) -> Generator[Platform]:
    made = Platform(tmp_path)
    yield made
    made.site.answers.set()
    made.service.close()


def test_each_job_goes_to_its_own_engine_and_comes_back_there(platform: Platform) -> None:
    # The limit of one running job per user is for the cards of this server.
    there = [platform.submit("site", device="npu:64") for _ in range(2)]
    here = platform.submit()
    running = platform.wait_until(here, JobState.RUNNING)
    assert (running.engine, running.attempts[0].engine) == ("local", "local")
    assert len(running.attempts[0].cards) == 1
    for job in there:
        record = platform.pending(job)
        assert (record.engine, record.waiting, record.attempts[0].cards) == ("site", None, ())
    assert [card.job_id for card in platform.service.cards()].count(here) == 1
    assert [job for job, _ in platform.here.started()] == [here]
    second = platform.submit()
    assert platform.service.get(second).state is JobState.QUEUED

    # Another life of the server finds each where it was.
    platform.service.close()
    platform.open(platform.here, platform.site)
    platform.site.begin(there[0])
    platform.wait_until(there[0], JobState.RUNNING)
    platform.site.finish(there[0])
    platform.here.finish(here)
    platform.wait_until(there[0], JobState.SUCCEEDED)
    platform.wait_until(here, JobState.SUCCEEDED)
    platform.wait_until(second, JobState.RUNNING)
    assert [job for job, _ in platform.site.started()] == there

    again = platform.service.rerun(there[0], user="ann")
    assert platform.pending(again.id).engine == "site"
    platform.service.stop(again.id)
    platform.wait_until(again.id, JobState.STOPPED)


def test_an_engine_that_does_not_answer_costs_only_its_own_jobs(platform: Platform) -> None:
    platform.site.answers.clear()
    stuck = platform.submit("site")
    assert platform.site.asked.wait(LIMIT_S)
    for _ in range(3):
        here = platform.submit()
        platform.wait_until(here, JobState.RUNNING)
        platform.here.finish(here)
        platform.wait_until(here, JobState.SUCCEEDED)
    assert platform.service.get(stuck).state is JobState.STARTING
    unwanted = platform.submit("site")
    platform.wait_until(unwanted, JobState.STARTING)
    platform.service.stop(unwanted)
    platform.site.answers.set()
    platform.pending(stuck)
    platform.wait_until(unwanted, JobState.STOPPED)


def test_a_start_that_fails_is_tried_again_and_one_that_is_refused_is_told(
    platform: Platform,
) -> None:
    platform.site.fail_next_start(EngineFailed("the controller is away"))
    platform.pending(platform.submit("site"))
    platform.site.fail_next_start(SubmitRefused("no such partition"))
    record = platform.wait_until(platform.submit("site"), JobState.FAILED)
    assert (record.cause, record.values["error"]) == (Cause.START_REFUSED, "no such partition")


def test_what_a_server_does_not_have_is_refused_and_what_it_lost_waits(platform: Platform) -> None:
    with pytest.raises(BadInput, match="'moon'") as refused:
        platform.submit("moon")
    assert "local, site" in (refused.value.hint or "")
    key = "0123456789abcdef"
    first = platform.submit("site", key)
    assert platform.submit("site", key) == first
    with pytest.raises(KeyReused):
        platform.submit("local", key)
    platform.pending(first)
    platform.service.draining.begin(by="root")
    queued = platform.submit("site")
    platform.service.close()

    alone = platform.open(platform.here)
    alone.draining.end()
    here = platform.submit()
    platform.wait_until(here, JobState.RUNNING)
    assert platform.service.get(first).state is JobState.STARTING
    waiting = platform.service.get(queued).waiting
    assert waiting is not None
    assert (waiting.cause, "site" in waiting.text) == ("never", True)
    platform.service.close()

    platform.open(platform.site, platform.here)
    platform.pending(queued)
    platform.site.begin(first)
    platform.wait_until(first, JobState.RUNNING)
    assert platform.service.engines.names == ("site", "local")


def test_a_drain_that_empties_the_cards_leaves_the_site_alone(platform: Platform) -> None:
    there, here = platform.submit("site"), platform.submit()
    platform.pending(there)
    platform.site.begin(there)
    platform.wait_until(there, JobState.RUNNING)
    platform.wait_until(here, JobState.RUNNING)
    platform.service.draining.begin(by="root", requeue=True)
    platform.wait_until(here, JobState.QUEUED)
    assert platform.service.get(there).state is JobState.RUNNING
    assert isinstance(platform.service.drain_report().drain, Drain)


def test_a_job_that_slurm_has_is_not_lost_with_the_list(tmp_path: Path) -> None:
    """Its folder tells that it was submitted, and to whom: whether it still runs, Slurm is asked."""
    spec = JobSpec.model_validate({"name": "far", "command": "true"})
    attempt = Attempt(
        job_id="abcdefghij",
        number=1,
        user="ann",
        spec=spec,
        directory=tmp_path / "jobs" / "abcdefghij",
        cards=(),
        engine="slurm",
    )
    directory = JobDir(str(attempt.directory), 1)
    write_plain_files(directory, attempt)
    files = SharedFiles(tmp_path / "jobs")

    def found() -> tuple[str | None, str]:
        folders, _ = read_folders(files, [attempt.job_id])
        return folders[0].engine, folders[0].state

    assert found() == ("slurm", "lost")
    write_json(submitted_file(directory), {"job": "7"})
    assert found() == ("slurm", "starting")
    write_ending(directory, Ending("succeeded", "done", "it succeeded"))
    assert found() == ("slurm", "succeeded")
