"""The states of a job, and those of one attempt of it."""

from enum import StrEnum


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

    @property
    def is_final(self) -> bool:
        """Whether nothing comes after."""
        return self in FINAL

    @property
    def is_active(self) -> bool:
        """Whether an attempt of the job is under way."""
        return self in ACTIVE


ACTIVE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.STOPPING})
FINAL = frozenset(JobState) - ACTIVE - {JobState.QUEUED}


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

    @property
    def is_final(self) -> bool:
        """Whether nothing comes after."""
        return self in ENDED


ENDED = frozenset(AttemptState) - {
    AttemptState.PENDING,
    AttemptState.STARTING,
    AttemptState.RUNNING,
    AttemptState.STOPPING,
}


class JobSort(StrEnum):
    """Orders of the list of jobs."""

    NEWEST = "newest"
    OLDEST = "oldest"
    NAME = "name"
    USER = "user"
    LONGEST = "longest"
    FINISHED = "finished"
