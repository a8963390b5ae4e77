"""How an attempt stands, from its directory and its processes; few system calls each."""

import logging
import os
import signal
import time
from dataclasses import dataclass

from jumar.engine.base import Attempt, Observation
from jumar.engine.local.files import job_dir
from jumar.engine.local.starter import Starter
from jumar.errors import EngineFailed
from jumar.launch import jobdir, process
from jumar.launch.cgroup import Cgroup
from jumar.launch.jobdir import Claim, Ending, JobDir
from jumar.spec.states import JobState

logger = logging.getLogger(__name__)
ASK_AGAIN_S = 2.0
GIVE_UP_S = 60.0


@dataclass
class _Seen:
    """What does not change any more, so need not be read again."""

    claim: Claim | None = None
    running: bool = False
    asked_at: float = 0.0
    first_asked_at: float = 0.0


class Observer:
    """Remembers what is settled; what it forgets it reads again."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter
        self._seen: dict[tuple[str, int], _Seen] = {}

    def look(self, attempt: Attempt) -> Observation:
        """One attempt now; trouble with its directory never keeps others from being seen."""
        try:
            return self._look(attempt)
        except jobdir.Unusable as error:
            return _ended(attempt, Ending("lost", "supervisor-killed", str(error)))
        except OSError as error:
            if not attempt.directory.exists():
                reason = f"its directory {attempt.directory} is gone"
                return _ended(attempt, Ending("lost", "supervisor-killed", reason))
            logger.warning("job %s cannot be looked at now: %s", attempt.job_id, error)
            seen = self._seen.get((attempt.job_id, attempt.number), _Seen())
            return _going(attempt, seen)

    def _look(self, attempt: Attempt) -> Observation:
        directory = job_dir(attempt)
        ending = jobdir.read_ending(directory)
        if ending is not None:
            return self._final(attempt, ending)
        seen = self._seen.setdefault((attempt.job_id, attempt.number), _Seen())
        seen.claim = seen.claim or jobdir.read_claim(directory)
        if seen.claim is None:
            return self._unclaimed(attempt, directory, seen)
        if not _runs(seen.claim):
            # It may have ended between the two looks.
            ending = jobdir.read_ending(directory) or _lost(attempt, directory, seen.claim)
            return self._final(attempt, ending)
        seen.running = seen.running or os.path.exists(directory.ranks)
        return _going(attempt, seen)

    def _final(self, attempt: Attempt, ending: Ending) -> Observation:
        self._seen.pop((attempt.job_id, attempt.number), None)
        return _ended(attempt, ending)

    def _unclaimed(self, attempt: Attempt, directory: JobDir, seen: _Seen) -> Observation:
        now = time.monotonic()
        seen.first_asked_at = seen.first_asked_at or now
        if now - seen.first_asked_at > GIVE_UP_S and _take(directory):
            return self._final(attempt, _never_started(directory))
        if not seen.asked_at:
            seen.asked_at = now
        elif now - seen.asked_at > ASK_AGAIN_S and os.path.exists(directory.request):
            seen.asked_at = now
            try:
                self._starter.start(directory)
            except EngineFailed as error:
                logger.warning("job %s: %s", attempt.job_id, error)
        return _going(attempt, seen)


def _ended(attempt: Attempt, ending: Ending) -> Observation:
    return Observation(
        job_id=attempt.job_id,
        number=attempt.number,
        state=JobState(ending.state),
        started_at=ending.started_at,
        finished_at=ending.finished_at,
        exit_code=ending.exit_code,
        reason=ending.reason,
        tail=ending.tail or None,
    )


def _going(attempt: Attempt, seen: _Seen) -> Observation:
    state = JobState.RUNNING if seen.running else JobState.STARTING
    return Observation(job_id=attempt.job_id, number=attempt.number, state=state)


def _runs(claim: Claim) -> bool:
    return process.is_alive(claim.supervisor) or process.is_alive(claim.guard)


def _take(directory: JobDir) -> bool:
    """Claim an attempt for nobody, so that a late supervisor leaves it alone."""
    me = process.myself()
    return jobdir.create_json(directory.claim, Claim(me, me, os.uname().nodename, None).as_json())


def _never_started(directory: JobDir) -> Ending:
    jobdir.forget_keys(directory)
    ending = Ending(
        "lost",
        "supervisor-killed",
        f"no supervisor could be started within {GIVE_UP_S:g} s",
        finished_at=time.time(),
    )
    jobdir.write_ending(directory, ending)
    return ending


def _lost(attempt: Attempt, directory: JobDir, claim: Claim) -> Ending:
    restarted = claim.supervisor.boot_id != process.boot_id()
    if not restarted:
        _end_leftovers(attempt, claim)
    jobdir.forget_keys(directory)
    ending = Ending(
        "lost",
        "supervisor-killed",
        "the machine was restarted" if restarted else "its supervisor and guard were killed",
        started_at=os.stat(directory.claim).st_mtime,
        finished_at=time.time(),
    )
    jobdir.write_ending(directory, ending)
    return ending


def _end_leftovers(attempt: Attempt, claim: Claim, limit_s: float = 5.0) -> None:
    group = Cgroup(claim.cgroup) if claim.cgroup else None
    marks = {"JUMAR_JOB_ID": attempt.job_id, "JUMAR_ATTEMPT": str(attempt.number)}
    give_up = time.monotonic() + limit_s
    while time.monotonic() < give_up:
        left = {stat.pid for stat in process.with_environment(marks)}
        left.update(group.pids() if group else ())
        if not left and (group is None or group.remove()):
            return
        if group:
            group.kill()
        for pid in left:
            process.send(pid, signal.SIGKILL)
        time.sleep(0.01)
    logger.warning("job %s left processes that cannot be ended", attempt.job_id)
