"""A clock that is set: no job ends early, late or never, and no promise of the line moves."""

import time
from pathlib import Path

import pytest
from tests.jobs.conftest import Platform

from jumar.engine.base import Attempt
from jumar.engine.shared.files import write_files
from jumar.engine.shared.jobfiles import Roots
from jumar.launch.jobdir.job import read_request
from jumar.spec.devices import CardRef
from jumar.spec.job import JobSpec
from jumar.spec.states import JobState

HOUR_S = 3600.0


def set_clock(monkeypatch: pytest.MonkeyPatch, by_s: float) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + by_s)


@pytest.mark.parametrize("by_s", [-HOUR_S, HOUR_S], ids=["back", "forward"])
def test_a_time_limit_is_as_long_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_s: float
) -> None:
    spec = JobSpec.model_validate({"name": "x", "command": "true", "time_limit": "10m"})
    attempt = Attempt(
        job_id="a",
        number=1,
        user="ann",
        spec=spec,
        directory=tmp_path / "a",
        cards=(CardRef("local", 0),),
    )
    before = time.monotonic()
    write_files(Roots().of(attempt), attempt, env_cache=tmp_path, notify=tmp_path)
    written = time.monotonic()
    # Between the engine's request and the supervisor's start.
    set_clock(monkeypatch, by_s)
    ends_at = read_request(Roots().of(attempt)).ends_at()
    assert ends_at is not None
    assert before <= ends_at - 600 <= written


@pytest.mark.parametrize("by_s", [-HOUR_S, HOUR_S], ids=["back", "forward"])
def test_what_the_line_expects_of_a_running_job_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_s: float
) -> None:
    platform = Platform(f"sqlite:///{tmp_path / 'jumar.db'}", tmp_path)
    try:
        job = platform.submit("sim:8", time_limit="2h")
        platform.wait(job, JobState.RUNNING)
        second = platform.submit("sim:8")
        waiting = platform.service.get(second).waiting
        assert waiting is not None
        assert waiting.expected_start is not None
        wait_s = waiting.expected_start - time.time()
        set_clock(monkeypatch, by_s)
        waiting = platform.service.get(second).waiting
        assert waiting is not None
        assert waiting.expected_start is not None
        # What passes between the two looks is less than what the clock was set by.
        assert abs(waiting.expected_start - time.time() - wait_s) < HOUR_S / 2
        platform.engine.finish(job)
        platform.wait(second, JobState.RUNNING)
    finally:
        platform.service.close()
