"""The states of a job, and those of one attempt of it; and which may follow which: the one place where a step is
allowed or refused."""

from enum import StrEnum

from jumar.errors import Conflict, JobEnded

MOST_ATTEMPTS = 99_999
"""Of one job: folders and root's program know no larger number."""


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    TIMED_OUT = "timed-out"
    LOST = "lost"

    def __init__(self, word: str) -> None:
        # Once: each pass asks it of every job.
        self.is_active = word in ("starting", "running", "stopping")
        """Whether an attempt of the job is under way."""
        self.is_final = word != "queued" and not self.is_active
        """Whether nothing comes after."""


ACTIVE = frozenset(state for state in JobState if state.is_active)
FINAL = frozenset(state for state in JobState if state.is_final)


class AttemptState(StrEnum):
    """Where one attempt of a job stands."""

    PENDING = "pending"
    """In the queue of the site that it was handed to."""
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    TIMED_OUT = "timed-out"
    PREEMPTED = "preempted"
    """Made room for another job; its own job goes back in the queue."""
    LOST = "lost"

    def __init__(self, word: str) -> None:
        self.is_final = word not in ("pending", "starting", "running", "stopping")
        """Whether nothing comes after."""


ENDED = frozenset(state for state in AttemptState if state.is_final)


class JobSort(StrEnum):
    """Orders of the list of jobs."""

    NEWEST = "newest"
    OLDEST = "oldest"
    NAME = "name"
    USER = "user"
    LONGEST = "longest"
    FINISHED = "finished"


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
