"""How an attempt stands, from its keeper's lock, its processes and its files; few system calls each.

An attempt has ended when its processes have. What its files say counts only then, and only as far as
it makes sense: a job can write them. An error that may pass says nothing: the attempt stands as before."""

import logging
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from jumar.engine.base import Attempt, Observation
from jumar.engine.shared.jobfiles import Roots
from jumar.errors import EngineFailed
from jumar.launch.jobdir import claims, news
from jumar.launch.jobdir.claims import Census, Claim, keeps
from jumar.launch.jobdir.files import JobDir, has_ranks, is_plain
from jumar.launch.jobdir.news import Ending, lost
from jumar.launch.jobdir.safefile import Unusable
from jumar.launch.judge import as_asked
from jumar.launch.processes import process
from jumar.launch.processes.tree import cgroup_name, claimed_cgroup
from jumar.spec.causes import Cause, Values, known
from jumar.spec.records import StagingRecord
from jumar.spec.states import AttemptState
from jumar.spec.text import storable

logger = logging.getLogger(__name__)
ASK_AGAIN_S = 2.0
GIVE_UP_S = 60.0
_GONE_S = 10.0
"""How long to look for a job directory that does not exist: a share may be away for a moment."""
_MOST_REMEMBERED = 4096


@dataclass
class Seen:
    """What does not change any more, so need not be read again."""

    claim: Claim | None = None
    running: bool = False
    asked_at: float = 0.0
    first_asked_at: float = 0.0
    ending: Ending | None = None
    trouble: str = ""
    """What is in the way of looking, said once."""
    is_killed: bool = False


def with_results(
    attempt: Attempt, seen: Observation, staging: Callable[[Attempt], StagingRecord | None]
) -> Observation:
    """What was seen; of an attempt that has ended also whether results are left. `staging`: how far its data is."""
    if not seen.state.is_final or not attempt.spec.sends_results:
        return seen
    try:
        record = staging(attempt)
    except OSError:
        # Not known now: what may be unsent is looked after until it is known.
        return replace(seen, not_uploaded=True)
    return replace(seen, not_uploaded=record is not None and record.has_unsent)


class Observer:
    """Remembers what is settled; what it forgets it reads again."""

    def __init__(self, roots: Roots, start: Callable[[JobDir], None]) -> None:
        """`start` is asked again for an attempt that nobody has claimed."""
        self._roots = roots
        self._start = start
        self._seen: dict[tuple[str, int], Seen] = {}

    def look(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """The attempts now; trouble with one never keeps the others from being seen."""
        if len(self._seen) > _MOST_REMEMBERED:
            self._seen = {key: seen for key, seen in self._seen.items() if seen.ending is None}
        census = Census()
        return [self._one(attempt, census) for attempt in attempts]

    def begin(self, attempt: Attempt) -> None:
        """The attempt is being started, perhaps once more: its time to claim begins now."""
        seen = self._seen.setdefault((attempt.job_id, attempt.number), Seen())
        seen.first_asked_at = seen.asked_at = time.monotonic()

    def killed(self, attempt: Attempt) -> None:
        """Keeper and supervisor of the attempt were killed: whatever else is left is to be ended."""
        self._seen.setdefault((attempt.job_id, attempt.number), Seen()).is_killed = True

    def _one(self, attempt: Attempt, census: Census) -> Observation:
        seen = self._seen.setdefault((attempt.job_id, attempt.number), Seen())
        try:
            # Once known it stays, until it is written down: its directory may be gone by then.
            seen.ending = seen.ending or self._look(self._roots.of(attempt), seen, census)
        except OSError as error:
            _tell_once(seen, attempt, f"cannot be looked at now: {error.strerror}")
        if seen.ending is None:
            return going_on(attempt, None, running=seen.running)
        return ended(attempt, seen.ending)

    def _look(self, directory: JobDir, seen: Seen, census: Census) -> Ending | None:
        """How it ended; None while it has not, as far as anyone can tell."""
        damage = ""
        try:
            seen.claim = seen.claim or claims.read_claim(directory)
        except Unusable as error:
            damage = str(error)
        # A job can take the lock of its own claim: of a killed attempt it says nothing any more.
        is_held = not seen.is_killed and claims.is_held(directory)
        if is_held or _is_kept(seen.claim, directory):
            seen.running = seen.running or has_ranks(directory)
            return None
        if seen.claim is None and not damage and not os.path.lexists(directory.said):
            return self._unclaimed(directory, seen, census)
        if self._is_inhabited(directory, seen, census):
            return None
        return read_ending(directory) or _lost(directory, seen.claim, damage)

    def _is_inhabited(self, directory: JobDir, seen: Seen, census: Census) -> bool:
        """Whether it has processes all the same; without keeper and supervisor they are ended."""
        if census.keepers(directory) or (not seen.is_killed and claims.is_held(directory)):
            return True
        left = set(census.ranks(directory))
        name = cgroup_name(directory.job_id, directory.number, directory.node)
        group = claimed_cgroup(seen.claim and seen.claim.cgroup, name)
        if group is not None and not group.remove():
            left.update(group.pids())
            group.kill()
        elif not left:
            return False
        for pid in left:
            process.send(pid, signal.SIGKILL)
        return True

    def _unclaimed(self, directory: JobDir, seen: Seen, census: Census) -> Ending | None:
        now = time.monotonic()
        if not seen.first_asked_at:
            seen.first_asked_at = seen.asked_at = now
        patience_s = GIVE_UP_S if os.path.isdir(directory.root) else _GONE_S
        if now - seen.asked_at <= ASK_AGAIN_S:
            return None
        seen.asked_at = now
        if census.is_kept(directory) or census.ranks(directory):
            # The job has removed its claim, or its whole directory, and runs on.
            return None
        if now - seen.first_asked_at > patience_s:
            return _never_started(directory)
        if os.path.lexists(directory.request):
            try:
                self._start(directory)
            except EngineFailed as error:
                logger.warning("job %s: %s", directory.job_id, error)
        return None


def _tell_once(seen: Seen, attempt: Attempt, trouble: str) -> None:
    if trouble != seen.trouble:
        seen.trouble = trouble
        logger.warning("job %s %s", attempt.job_id, trouble)


def going_on(attempt: Attempt, handle: str | None, *, running: bool) -> Observation:
    """The observation of an attempt that has begun and not ended."""
    state = AttemptState.RUNNING if running else AttemptState.STARTING
    return Observation(job_id=attempt.job_id, number=attempt.number, state=state, handle=handle)


def waiting(attempt: Attempt, handle: str | None, values: Values) -> Observation:
    """The observation of an attempt in the queue of its engine; `values` say why."""
    return Observation(
        job_id=attempt.job_id,
        number=attempt.number,
        state=AttemptState.PENDING,
        handle=handle,
        cause=Cause.PENDING,
        values=values,
    )


def ended(attempt: Attempt, ending: Ending) -> Observation:
    """The observation of an attempt that has ended so."""
    now = time.time()
    finished_at = min(ending.finished_at or now, now)
    started_at = None if ending.started_at is None else min(ending.started_at, finished_at)
    cause, values = known(ending.cause, ending.values)
    return Observation(
        job_id=attempt.job_id,
        number=attempt.number,
        state=AttemptState(ending.state),
        started_at=started_at,
        finished_at=finished_at,
        exit_code=ending.exit_code,
        cause=cause,
        values=values,
        reason=storable(ending.reason),
        tail=storable(ending.tail) or None,
        ending_at=None if ending.ending_at is None else min(ending.ending_at, finished_at),
        saved=storable(ending.saved or "") or None,
        advanced=ending.advanced,
    )


def _is_kept(claim: Claim | None, directory: JobDir) -> bool:
    """Whether one of its two processes lives although no lock is held: a supervisor that ends what a
    killed keeper has left, or the keeper of an earlier jumar, which took no lock."""
    if claim is None:
        return False
    return keeps(claim.supervisor, directory) or keeps(claim.keeper, directory)


def read_ending(directory: JobDir) -> Ending | None:
    try:
        return news.read_ending(directory)
    except Unusable as error:
        return _unreadable(directory, str(error))


def _never_started(directory: JobDir) -> Ending | None:
    """Claim the attempt for nobody, so that a late keeper leaves it alone; None: one was quicker."""
    if not is_plain(directory):
        return _directory_gone(directory, directory.control)
    me = process.myself()
    lock = claims.take(directory, Claim(me, me, os.uname().nodename, None))
    if lock is None:
        return None
    os.close(lock)
    limit_s = f"{GIVE_UP_S:g}"
    reason = f"no supervisor could be started within {limit_s} s"
    return written(directory, lost(directory, "never-started", reason, limit_s=limit_s))


def _lost(directory: JobDir, claim: Claim | None, damage: str) -> Ending:
    if not is_plain(directory):
        return _directory_gone(directory, directory.root)
    if claim is not None and claim.keeper.boot_id != process.boot_id():
        ending = lost(directory, "machine-restarted", "the machine was restarted")
    elif damage:
        ending = _unreadable(directory, damage)
    else:
        ending = lost(directory, "launcher-killed", "its supervisor and keeper were killed")
    return written(directory, ending)


def _directory_gone(directory: JobDir, folder: str) -> Ending:
    reason = f"its directory {folder} no longer exists"
    return lost(directory, "directory-gone", reason, folder=folder)


def _unreadable(directory: JobDir, words: str) -> Ending:
    reason = f"its result cannot be read: {words}"
    return lost(directory, "result-unreadable", reason, error=words)


def written(directory: JobDir, ending: Ending) -> Ending:
    """What an engine says of an attempt that can say nothing itself: what the platform had asked for comes first,
    whoever was killed after that."""
    return stored(directory, as_asked(directory, ending) if is_plain(directory) else ending)


def stored(directory: JobDir, ending: Ending) -> Ending:
    """Also in the directory, for whoever reads it later; what counts is that it is known. Not through links,
    which may lead into the folder of another job."""
    if not is_plain(directory):
        return ending
    try:
        news.write_ending(directory, ending)
    except OSError as error:
        logger.info("job %s: its result is not in its directory: %s", directory.job_id, error)
    return ending
