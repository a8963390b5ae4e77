"""Which state may follow which: the one place where a step is allowed or refused."""

from jumar.errors import Conflict, JobEnded
from jumar.spec.states import FINAL, JobState

STEPS: dict[JobState, frozenset[JobState]] = {
    # A queued job may be taken back, or turn out impossible to start.
    JobState.QUEUED: frozenset({JobState.STARTING, JobState.STOPPED, JobState.FAILED}),
    # A short job may be over before anyone saw it run.
    JobState.STARTING: frozenset({JobState.RUNNING, JobState.STOPPING, JobState.QUEUED, *FINAL}),
    JobState.RUNNING: frozenset({JobState.STOPPING, JobState.QUEUED, *FINAL}),
    # A job may end by itself while it is being stopped; a preempted one goes back in line.
    JobState.STOPPING: frozenset({JobState.QUEUED, *FINAL}),
    **{state: frozenset[JobState]() for state in FINAL},
}


def check_step(job_id: str, before: JobState, after: JobState) -> None:
    """Refuse a step that the table does not have."""
    if after not in STEPS[before]:
        kind = JobEnded if before in FINAL else Conflict
        raise kind(f"job {job_id} is {before} and cannot become {after}")
