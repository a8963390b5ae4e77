"""The states of a job and of an attempt, and which may follow which."""

from enum import StrEnum


class JobState(StrEnum):
    """Where a job, or one attempt of it, stands."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    TIMED_OUT = "timed-out"
    PREEMPTED = "preempted"
    LOST = "lost"

    @property
    def is_final(self) -> bool:
        """Whether nothing comes after."""
        return self in FINAL

    @property
    def is_active(self) -> bool:
        """Whether the job holds cards now."""
        return self in ACTIVE


ACTIVE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.STOPPING})
FINAL = frozenset(JobState) - ACTIVE - {JobState.QUEUED}
