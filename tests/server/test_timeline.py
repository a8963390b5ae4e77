"""What recovering cost in all is the sum of what its attempts say."""

from dataclasses import replace

import pytest

from jumar.server.web.timeline import timeline
from jumar.spec.records import AttemptRecord, JobRecord, Recovery
from jumar.spec.states import AttemptState, JobState


def attempt(number: int, at: float, load_s: float | None) -> AttemptRecord:
    return AttemptRecord(
        number=number,
        state=AttemptState.TIMED_OUT,
        created_at=at,
        started_at=at + 0.5,
        ending_at=at + 60.0,
        finished_at=at + 61.0,
        recovery=None if number == 1 else Recovery(1.0, 0.0, 1.0, 0.5, load_s, 3),
    )


def job(*attempts: AttemptRecord) -> JobRecord:
    return JobRecord(
        id="j1",
        name="a",
        user="ann",
        state=JobState.SUCCEEDED,
        device="npu:1",
        nodes=1,
        priority=100,
        created_at=0.0,
        finished_at=attempts[-1].finished_at,
        spec={},
        attempts=attempts,
        directory="/jobs/j1",
    )


def test_the_way_to_the_first_step_is_part_of_recovering() -> None:
    shown = timeline(job(attempt(1, 0.0, None), attempt(2, 62.0, 15.2), attempt(3, 124.0, 17.8)), 0)
    assert shown is not None
    assert shown.lost_s == pytest.approx(2 * 2.5 + 15.2 + 17.8)
    assert not shown.lost_more


def test_what_nobody_knows_is_not_told_as_nothing() -> None:
    silent = attempt(3, 124.0, None)
    for last in (silent, replace(silent, recovery=None)):
        shown = timeline(job(attempt(1, 0.0, None), attempt(2, 62.0, 15.2), last), 0)
        assert shown is not None
        assert shown.lost_s == pytest.approx(2 * 2.5 + 15.2)
        assert shown.lost_more
