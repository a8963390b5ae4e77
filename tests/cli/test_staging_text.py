"""What `jumar show` and `jumar run --follow` say of a job's data."""

import pytest

from jumar.cli.follow import data_news
from jumar.cli.staging_text import staging_facts
from jumar.spec.records import Carried, JobRecord, StagingRecord
from jumar.spec.states import FINAL, JobState

ERROR = "10.0.0.9 did not answer for obs://lab/out"


def job(staging: StagingRecord, state: JobState = JobState.RUNNING) -> JobRecord:
    return JobRecord(
        id="k7x2m9q4tb",
        name="digits",
        user="ann",
        state=state,
        device="cpu:1",
        nodes=1,
        priority=100,
        created_at=0.0,
        spec={},
        directory="/srv/jobs/k7x2m9q4tb",
        staging=staging,
        not_uploaded=state in FINAL and staging.has_unsent,
    )


@pytest.mark.parametrize(
    ("phase", "state", "said"),
    [
        (
            "bringing",
            JobState.STARTING,
            "inputs: the store cannot be reached ({error}); trying again",
        ),
        (
            "sending",
            JobState.RUNNING,
            "results: the store cannot be reached ({error}); they are kept in {directory} and sent again",
        ),
        (
            "running",
            JobState.RUNNING,
            "results: not sent: {error}; they are kept in {directory} and sent again every few minutes",
        ),
        (
            "not-uploaded",
            JobState.SUCCEEDED,
            "results: not yet uploaded: {error}; they are kept in {directory} and sent again every few "
            "minutes, or now with: jumar jobs upload k7x2m9q4tb",
        ),
    ],
)
def test_a_store_that_is_away_is_said_with_what_is_kept_where(
    phase: str, state: JobState, said: str
) -> None:
    record = job(
        StagingRecord(phase=phase, error=ERROR, inputs=Carried(), outputs=Carried()), state
    )
    ((name, words),) = staging_facts(record)
    assert f"{name}: {words}" == said.format(error=ERROR, directory=record.directory)


def test_what_will_never_be_sent_is_said_once_and_not_tried_again() -> None:
    done = job(StagingRecord(phase="done", error="x is a link", sent_at=1.0), JobState.SUCCEEDED)
    ((_, words),) = staging_facts(done)
    assert words.startswith("x is a link; all others were sent ")


def test_nothing_is_said_to_be_0_of_0() -> None:
    asking = job(StagingRecord(phase="sending", outputs=Carried()))
    assert staging_facts(asking) == [("results", "sending; asking the store what it already has")]


def test_who_follows_is_told_too() -> None:
    what, _ = data_news(job(StagingRecord(phase="sending", error=ERROR)))
    assert what == f"sending results: the store cannot be reached ({ERROR}); trying again"
