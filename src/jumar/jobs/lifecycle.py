"""Which state may follow which: the one place where a step is allowed or refused."""

from jumar.errors import Conflict, JobEnded
from jumar.spec.states import FINAL, AttemptState, JobState

STEPS: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.STARTING, JobState.STOPPED}),
    # A short job may be over before anyone saw it run.
    JobState.STARTING: frozenset({JobState.RUNNING, JobState.STOPPING, JobState.QUEUED, *FINAL}),
    JobState.RUNNING: frozenset({JobState.STOPPING, JobState.QUEUED, *FINAL}),
    # A job may end by itself while it is being stopped.
    JobState.STOPPING: FINAL,
    **{state: frozenset[JobState]() for state in FINAL},
}

# The end of an attempt: the job's end, and whether another attempt may be made instead.
_AFTER: dict[AttemptState, tuple[JobState, bool]] = {
    AttemptState.SUCCEEDED: (JobState.SUCCEEDED, False),
    AttemptState.FAILED: (JobState.FAILED, True),
    AttemptState.LOST: (JobState.LOST, True),
    AttemptState.STOPPED: (JobState.STOPPED, False),
    AttemptState.TIMED_OUT: (JobState.TIMED_OUT, False),
    # Goes back in the queue as well, below: that uses no retry.
    AttemptState.PREEMPTED: (JobState.STOPPED, False),
}


def check_step(job_id: str, before: JobState, after: JobState) -> None:
    """Refuse a step that the table does not have."""
    if after not in STEPS[before]:
        if before in FINAL:
            raise JobEnded(f"job {job_id} has already ended ({before})")
        raise Conflict(f"job {job_id} is {before} and cannot become {after}")


def job_after(
    ended: AttemptState, *, is_stopping: bool, retries_left: int, segments_left: bool = False
) -> JobState:
    """What a job becomes whose attempt ended so. One that is being stopped is not tried again."""
    end, may_retry = _AFTER[ended]
    again = ended is AttemptState.PREEMPTED or (may_retry and retries_left > 0)
    again = again or (ended is AttemptState.TIMED_OUT and segments_left)
    return JobState.QUEUED if again and not is_stopping else end
