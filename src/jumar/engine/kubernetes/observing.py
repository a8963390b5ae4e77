"""How attempts on a cluster stand: their directories' own word first, then the cluster's.

A cluster that does not answer changes nothing. What its lists lack counts as gone only in a list that was
asked for after the object was made."""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from jumar.engine.base import Attempt, Observation
from jumar.engine.kubernetes import reasons
from jumar.engine.kubernetes.asking import Json
from jumar.engine.kubernetes.manifests import name_of
from jumar.engine.kubernetes.reasons import Ended
from jumar.engine.kubernetes.watch import Watch
from jumar.engine.kubernetes.watching import Key
from jumar.engine.shared.jobfiles import Roots
from jumar.engine.shared.observing import ended, going_on, read_ending, stored, waiting
from jumar.launch.jobdir.files import JobDir, has_ranks, is_plain
from jumar.launch.jobdir.job import ask_to_stop, read_stop
from jumar.launch.jobdir.news import Ending, lost
from jumar.launch.judge import STOPS, as_asked
from jumar.launch.kubernetes.pod import begun_file
from jumar.launch.limits import JOIN_LIMIT_S
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState
from jumar.words.reasons import cause_sentence

logger = logging.getLogger(__name__)
_AFTER_WORD_S = 60.0
"""How long after its last word, beyond the grace period, the pods of an attempt may take to end."""
STRANDED_S = JOIN_LIMIT_S + 30.0
"""How long some nodes of an attempt may wait for others."""
PULL_LIMIT_S = 600.0
"""How long cards are held for an image that cannot be pulled."""
_MOST_REMEMBERED = 10_000
_MENDED = frozenset(
    ("stopped-by-signal", "node-lost", "supervisor-killed", "keeper-killed", "launcher-killed")
)
"""What a launcher says whose pod was taken from it: the cluster knows why."""


@dataclass
class _Seen:
    """What is remembered of an attempt."""

    running: bool = False
    ending: Ending | None = None
    is_killed: bool = False
    said_at: float = 0.0
    partly_since: float = 0.0
    """Since when only some of its pods run."""
    pull_since: float = 0.0


@dataclass(frozen=True, slots=True)
class _View:
    """What the cluster has of an attempt."""

    job: Json | None
    pods: list[Json]
    were: list[Json]
    """Pods that were deleted."""
    is_known: bool
    """Whether that is all there is."""

    @property
    def is_alive(self) -> bool:
        """Whether anything of it may run."""
        now = time.time()
        return any(reasons.is_alive(pod, now) for pod in self.pods)


class Observer:
    """Remembers what is settled."""

    def __init__(
        self,
        roots: Roots,
        watch: Watch,
        *,
        queue_name: str,
        clear: Callable[[Attempt], bool],
        log_of: Callable[[str], str],
    ) -> None:
        """`clear`: removes what the cluster has of an attempt, if it can now. `log_of`: what a pod has written."""
        self._roots, self.watch, self._name = roots, watch, queue_name
        self._clear, self._log_of = clear, log_of
        self._seen: dict[Key, _Seen] = {}

    def killed(self, attempt: Attempt) -> None:
        """The attempt was killed unasked."""
        self._remembered(attempt).is_killed = True

    def look(self, attempts: list[Attempt]) -> list[Observation]:
        """All of them; asks the cluster nothing."""
        if len(self._seen) > _MOST_REMEMBERED:
            self._seen = {key: seen for key, seen in self._seen.items() if seen.ending is None}
        return [self._one(attempt) for attempt in attempts]

    def _remembered(self, attempt: Attempt) -> _Seen:
        return self._seen.setdefault((attempt.job_id, attempt.number), _Seen())

    def _one(self, attempt: Attempt) -> Observation:
        seen, directory = self._remembered(attempt), self._roots.of(attempt)
        if seen.ending is None:
            view = self._view(attempt, directory)
            seen.ending = self._by_word(attempt, directory, seen, view) or self._by_cluster(
                attempt, directory, seen, view
            )
            if seen.ending is None:
                return self._open(attempt, directory, seen, view)
        return ended(attempt, seen.ending)

    def _view(self, attempt: Attempt, directory: JobDir) -> _View:
        key = (attempt.job_id, attempt.number)
        (jobs, _), (pods, were) = self.watch.jobs.shelf.of(key), self.watch.pods.shelf.of(key)
        is_known = bool(self.watch.jobs.listed_at and self.watch.pods.listed_at)
        return _View(next(iter(jobs), None), pods, were, is_known and is_submitted(directory))

    def _open(self, attempt: Attempt, directory: JobDir, seen: _Seen, view: _View) -> Observation:
        seen.running = seen.running or has_ranks(directory)
        is_pending = is_submitted(directory) and not os.path.exists(begun_file(directory))
        handle = name_of(attempt.job_id, attempt.number) if is_submitted(directory) else None
        if not is_pending:
            return going_on(attempt, handle, running=seen.running)
        why = reasons.waits_for(view.job, view.pods) or "None"
        if why.partition(",")[0] in ("None", "ContainerCreating", "NotEnoughResources"):
            why = self._warned(attempt, view) or why
        return waiting(attempt, handle, {"engine": self._name, "error": why})

    def _warned(self, attempt: Attempt, view: _View) -> str:
        """What only the cluster's events tell: volumes, quotas."""
        names = [name_of(attempt.job_id, attempt.number)]
        names += [str(pod["metadata"]["name"]) for pod in view.pods]
        warnings = self.watch.warnings()
        return next((warnings[name] for name in names if name in warnings), "")

    def _by_word(
        self, attempt: Attempt, directory: JobDir, seen: _Seen, view: _View
    ) -> Ending | None:
        """What the launcher said, once all of its pods have ended, or should have."""
        if not os.path.lexists(directory.said) or not os.path.lexists(directory.result):
            return None
        now = time.monotonic()
        seen.said_at = seen.said_at or now
        is_late = now - seen.said_at > attempt.spec.grace + _AFTER_WORD_S
        if view.is_alive and not is_late:
            return None
        if seen.is_killed:
            return self._written(directory, _killed(directory))
        ending = read_ending(directory)
        if ending is None or ending.cause not in _MENDED or read_stop(directory) in STOPS_ASKED:
            return ending
        told = reasons.told_by([*view.pods, *view.were])
        if told is None or told.cause is Cause.POD_FAILED:
            if ending.cause != "stopped-by-signal" or view.job is None:
                return ending
            # The job exists, so nobody has stopped it: only its pod was taken.
            told = Ended(AttemptState.LOST, Cause.EVICTED, {"error": "its pod was deleted"})
        return self._written(directory, self._in_words(directory, told, ending.started_at))

    def _by_cluster(
        self, attempt: Attempt, directory: JobDir, seen: _Seen, view: _View
    ) -> Ending | None:
        """What the cluster says of an attempt that can say nothing itself any more."""
        if not view.is_known:
            return None
        if view.is_alive:
            return self._hopeless(attempt, directory, seen, view)
        is_open = view.job is not None and not reasons.is_over(view.job)
        if is_open and all(map(reasons.has_ended, view.pods)):
            # There are no pods yet, or their end is not written down in the job yet.
            return None
        if is_open and not self._clear(attempt):
            return None
        return self._written(directory, self._gone(directory, seen, view))

    def _gone(self, directory: JobDir, seen: _Seen, view: _View) -> Ending:
        said = read_ending(directory)
        if seen.is_killed:
            return _killed(directory)
        if said is not None:
            return said
        asked = read_stop(directory)
        if asked in STOPS_ASKED:
            return _stopped(directory, asked)
        told = reasons.told_by([*view.pods, *view.were])
        if told is None and view.job is not None:
            told = Ended(AttemptState.FAILED, Cause.POD_FAILED, {"error": reasons.end_of(view.job)})
        if told is not None:
            return self._in_words(directory, told)
        if not os.path.exists(begun_file(directory)):
            # Somebody has deleted it there.
            return _stopped(directory, "stopped")
        return _killed(directory)

    def _hopeless(
        self, attempt: Attempt, directory: JobDir, seen: _Seen, view: _View
    ) -> Ending | None:
        """Of an attempt that will not come to anything: its pods are removed."""
        now, ending = time.monotonic(), None
        image = reasons.pull_fails(view.pods)
        seen.pull_since = (seen.pull_since or now) if image else 0.0
        running = sum(map(reasons.is_running, view.pods))
        is_partly = not seen.running and 0 < running < attempt.spec.nodes
        seen.partly_since = (seen.partly_since or now) if is_partly else 0.0
        if image and (now - seen.pull_since > PULL_LIMIT_S or reasons.is_hopeless(view.pods)):
            told = Ended(AttemptState.FAILED, Cause.IMAGE, {"error": image})
            ending = self._in_words(directory, told)
        elif is_partly and now - seen.partly_since > STRANDED_S:
            words = f"only {running} of {attempt.spec.nodes} pods were started"
            told = Ended(AttemptState.LOST, Cause.NODES_APART, {"error": words})
            ending = self._in_words(directory, told)
        if ending is None or not self._clear(attempt):
            return None
        return self._written(directory, ending)

    def _in_words(self, directory: JobDir, told: Ended, started_at: float | None = None) -> Ending:
        reason = cause_sentence(told.cause, told.values, "en") or ""
        ending = lost(directory, told.cause.value, reason, **told.values)
        tail = self._log_of(told.pod) if told.pod else ""
        return ending._replace(
            state=told.state.value, tail=tail, started_at=started_at or ending.started_at
        )

    def _written(self, directory: JobDir, ending: Ending) -> Ending:
        # Before this asks for an end too.
        ending = as_asked(directory, ending)
        try:
            # A pod on a node that was out of reach may come back: it shall find that it is over.
            if is_plain(directory):
                ask_to_stop(directory, "preempted")
        except OSError as error:
            logger.info("job %s: it cannot be told that it is over: %s", directory.job_id, error)
        return stored(directory, ending)


STOPS_ASKED = frozenset(STOPS) - {"signal"}
"""What the platform asks with; a launcher that was signalled writes only that."""


def submitted_file(directory: JobDir) -> str:
    """Holds the uid that the cluster gave the attempt."""
    return os.path.join(directory.control, "submitted.json")


def is_submitted(directory: JobDir) -> bool:
    """Whether the cluster was given the attempt, and said so."""
    return os.path.exists(submitted_file(directory))


def _stopped(directory: JobDir, why: str) -> Ending:
    state, cause, reason = STOPS.get(why, STOPS["stopped"])
    return lost(directory, cause, reason)._replace(state=state)


def _killed(directory: JobDir) -> Ending:
    return lost(directory, "launcher-killed", "its supervisor and keeper were killed")
