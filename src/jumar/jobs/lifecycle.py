"""Which state may follow which: the one place where a step is allowed or refused."""

from jumar.errors import Conflict
from jumar.spec.states import ACTIVE, FINAL, JobState

_ENDS = FINAL - {JobState.STOPPED}

STEPS: dict[JobState, frozenset[JobState]] = {
    # A queued job may be taken back, or turn out impossible to start.
    JobState.QUEUED: frozenset({JobState.STARTING, JobState.STOPPED, JobState.FAILED}),
    JobState.STARTING: frozenset(
        {JobState.RUNNING, JobState.STOPPING, JobState.QUEUED, JobState.FAILED, JobState.LOST}
    ),
    JobState.RUNNING: frozenset({JobState.STOPPING, JobState.QUEUED, *_ENDS}),
    # A job may end by itself while it is being stopped.
    JobState.STOPPING: frozenset({JobState.STOPPED, JobState.QUEUED, *_ENDS}),
    **{state: frozenset[JobState]() for state in FINAL},
}


def check_step(job_id: str, before: JobState, after: JobState) -> None:
    """Refuse a step that the table does not have."""
    if after not in STEPS[before]:
        raise Conflict(f"job {job_id} is {before} and cannot become {after}")


def holds_cards(state: JobState) -> bool:
    """Whether a job in this state has cards to itself."""
    return state in ACTIVE
