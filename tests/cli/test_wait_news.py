"""What `jumar run --follow` says of a job that waits, and of one that does not."""

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.cli.test_reasons import failed

from jumar.cli.follow import WaitNews, log_to, print_log
from jumar.client import Client, LogChunk, StateChange
from jumar.errors import ServerUnreachable
from jumar.spec.records import JobRecord, Waiting
from jumar.spec.states import JobState

STARTS = Waiting(
    text="it is next and starts in a moment",
    cause="starts",
    place_in_line=1,
    needs=1,
    free=4,
    total=4,
)
CARDS = replace(STARTS, text="1 of 4 cpu cards are free, needs 2; first in line", cause="cards")


class Server:
    """Answers of a server: why the job waits, one answer a question, the last one for ever."""

    def __init__(self, *answers: Waiting | ServerUnreachable | None) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.enough = threading.Event()

    def get(self, job: str) -> Any:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if self.asked >= len(self.answers) + 1:
            self.enough.set()
        if isinstance(answer, ServerUnreachable):
            raise answer
        return SimpleNamespace(waiting=answer, state=JobState.QUEUED)

    def follow(self, job: str, **_: object) -> Iterator[StateChange | LogChunk]:
        yield StateChange(JobState.QUEUED, None)
        assert self.enough.wait(180)
        yield StateChange(JobState.RUNNING, None)
        yield LogChunk("hi\n", 0, 3)

    @property
    def client(self) -> Client:
        return cast("Client", self)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jumar.cli.follow._NOTICED_S", 0.01)


@pytest.mark.usefixtures("quick")
def test_a_job_whose_turn_has_come_does_not_wait(capsys: pytest.CaptureFixture[str]) -> None:
    print_log(Server(STARTS, STARTS, STARTS).client, "k7x2m9q4tb", write=log_to(sys.stdout))
    assert capsys.readouterr() == ("hi\n", "")


@pytest.mark.usefixtures("quick")
def test_the_reason_is_told_once_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(STARTS, None, ServerUnreachable("away"), CARDS)
    with WaitNews(server.client, "k7x2m9q4tb") as waits:
        waits.state(JobState.QUEUED)
        said = ""
        give_up_at = time.monotonic() + 180
        while not (said := said + capsys.readouterr().err):
            assert time.monotonic() < give_up_at
            time.sleep(0.01)
        for state in (JobState.QUEUED, JobState.RUNNING, JobState.QUEUED):
            waits.state(state)
    assert said + capsys.readouterr().err == f"waiting: {CARDS.text}\n"


def test_a_job_that_starts_within_a_second_is_not_asked_about() -> None:
    server = Server(CARDS)
    server.enough.set()
    began = time.monotonic()
    print_log(server.client, "k7x2m9q4tb", write=log_to(sys.stdout))
    # Where the machine itself took the second, the question was due.
    assert server.asked == 0 or time.monotonic() - began >= 1


@pytest.mark.usefixtures("quick")
def test_a_start_that_is_stuck_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("jumar.cli.follow._SLOW_START_S", 0.0)
    server = Server(STARTS)
    with WaitNews(server.client, "k7x2m9q4tb") as waits:
        waits.state(JobState.QUEUED)
        give_up_at = time.monotonic() + 180
        while not (said := capsys.readouterr().err):
            assert time.monotonic() < give_up_at
            time.sleep(0.01)
    assert said == f"waiting: {STARTS.text}\n"


@pytest.mark.usefixtures("quick")
def test_what_keeps_a_job_from_being_started_is_told_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = {"folder": "/data/jobs/k7x2m9q4tb", "limit_s": "600"}
    record = SimpleNamespace(
        state=JobState.STARTING, waiting=None, cause="folder-full", values=values, reason=None
    )
    client = cast("Client", SimpleNamespace(get={"k7x2m9q4tb": record}.get))
    with WaitNews(client, "k7x2m9q4tb") as waits:
        said = ""
        give_up_at = time.monotonic() + 180
        waits.state(JobState.STARTING)
        while not (said := said + capsys.readouterr().err):
            assert time.monotonic() < give_up_at
            time.sleep(0.01)
        for state in (JobState.QUEUED, JobState.STARTING):
            waits.state(state)
    said += capsys.readouterr().err
    assert said.startswith("waiting: no room left in /data/jobs/k7x2m9q4tb")
    assert said.count("\n") == 1


class Segments:
    """A job that reached its limit once, told twice, and went on."""

    def __init__(self, job: JobRecord) -> None:
        self._job = job

    def get(self, _job: str) -> JobRecord:
        return self._job

    def follow(self, _job: str, **_: object) -> Iterator[StateChange | LogChunk]:
        yield LogChunk("step 1\n", 0, 7)
        for _time in range(2):
            yield StateChange(JobState.QUEUED, "ended", "time-limit", self._job.values)
        yield StateChange(JobState.RUNNING, None)
        yield LogChunk("step 2\n", 7, 14)


def test_the_end_of_a_segment_is_told_between_the_lines_of_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended = replace(failed("time-limit", {"ended": "timed-out"}), state=JobState.QUEUED, attempt=1)
    print_log(cast("Client", Segments(ended)), "k7x2m9q4tb", write=log_to(sys.stdout))
    out, err = capsys.readouterr()
    assert out == "step 1\nstep 2\n"
    assert err == (
        "attempt 1 timed out: reached its time limit; the next segment will go on from there\n"
    )
