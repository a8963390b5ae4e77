"""What becomes of a job when an attempt of it ends."""

import pytest

from jumar.spec.states import ENDED, STEPS, AttemptState, JobState, job_after

A, S = AttemptState, JobState


@pytest.mark.parametrize(
    ("ended", "last", "retried", "stopping"),
    [
        (A.SUCCEEDED, S.SUCCEEDED, S.SUCCEEDED, S.SUCCEEDED),
        (A.FAILED, S.FAILED, S.QUEUED, S.FAILED),
        (A.LOST, S.LOST, S.QUEUED, S.LOST),
        (A.STOPPED, S.STOPPED, S.STOPPED, S.STOPPED),
        (A.TIMED_OUT, S.TIMED_OUT, S.TIMED_OUT, S.TIMED_OUT),
        (A.PREEMPTED, S.QUEUED, S.QUEUED, S.STOPPED),
    ],
)
def test_the_end_of_an_attempt_decides_what_its_job_becomes(
    ended: AttemptState, last: JobState, retried: JobState, stopping: JobState
) -> None:
    assert job_after(ended, is_stopping=False, retries_left=0) is last
    assert job_after(ended, is_stopping=False, retries_left=1) is retried
    assert job_after(ended, is_stopping=True, retries_left=1) is stopping


def test_every_end_is_a_step_that_the_table_allows() -> None:
    for ended in ENDED:
        for retries in (0, 1):
            assert job_after(ended, is_stopping=True, retries_left=retries) in STEPS[S.STOPPING]
            for before in (S.STARTING, S.RUNNING):
                after = job_after(ended, is_stopping=False, retries_left=retries)
                assert after in STEPS[before]
