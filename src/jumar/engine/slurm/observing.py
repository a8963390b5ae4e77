"""How attempts on a Slurm cluster stand: their directories' own word first, then the queue's.

A controller that is away, slow or has forgotten a job changes nothing: only a good answer counts, and what
it lacks is missing only after a second one, when nothing else shows life either."""

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jumar.engine.base import Attempt, Observation
from jumar.engine.shared.jobfiles import Roots
from jumar.engine.shared.observing import ended, going_on, read_ending, waiting, written
from jumar.engine.slurm import script
from jumar.engine.slurm.asking import Row, Slurm
from jumar.engine.slurm.limits import Limits
from jumar.errors import EngineFailed
from jumar.launch.jobdir.files import JobDir, has_ranks
from jumar.launch.jobdir.job import read_stop
from jumar.launch.jobdir.news import Ending, lost
from jumar.launch.jobdir.safefile import Unusable, read_object
from jumar.launch.judge import STOPS
from jumar.launch.slurm.batch import STALE_S, files_of
from jumar.spec.causes import Values

logger = logging.getLogger(__name__)
_WAITS = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
_ALIVE = frozenset(
    {"RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"}
)
_LOOKS = 2
"""So many good answers must lack a job before it is taken for gone."""

Rows = Mapping[tuple[str, int], Row]


@dataclass
class _Seen:
    """What is remembered of an attempt."""

    running: bool = False
    ending: Ending | None = None
    is_killed: bool = False
    missed: int = 0
    missed_in: int = 0
    """The number of the last answer that lacked it."""


class Queue:
    """Slurm's list of our jobs, asked for at most once per interval."""

    def __init__(self, ask: Callable[[], list[Row]], every_s: float) -> None:
        self._ask, self._every_s = ask, every_s
        self._rows: dict[tuple[str, int], Row] = {}
        self._asked_at = -1e9
        self._trouble = ""
        self.answers = 0
        """How many good answers there have been."""

    def rows(self) -> Rows:
        """As of the last good answer."""
        now = time.monotonic()
        if now - self._asked_at >= self._every_s:
            self._asked_at = now
            try:
                found = self._ask()
            except EngineFailed as error:
                self._say(error.message)
            else:
                self._say("")
                self._rows = newest(found)
                self.answers += 1
        return self._rows

    def _say(self, trouble: str) -> None:
        if trouble != self._trouble:
            logger.warning("%s", trouble or "Slurm answers again")
        self._trouble = trouble


def newest(rows: list[Row]) -> dict[tuple[str, int], Row]:
    """By job and attempt; a double that Slurm knows of counts only while the first does not."""
    found: dict[tuple[str, int], Row] = {}
    for row in rows:
        _, job_id, number, *_ = [*row.comment.split(":"), "", ""]
        if job_id and number.isdigit():
            key = (job_id, int(number))
            before = found.get(key)
            if before is None or before.state not in _ALIVE | _WAITS:
                found[key] = row
    return found


def row_of(rows: Rows, attempt: Attempt) -> Row | None:
    """The row of an attempt, or of its job where one job of Slurm has all of its attempts."""
    key = (attempt.job_id, attempt.number)
    return rows.get(key) or rows.get((attempt.job_id, script.ALL_ATTEMPTS))


class Observer:
    """Remembers what is settled."""

    def __init__(self, roots: Roots, queue: Queue, queue_name: str, slurm: Slurm) -> None:
        self._roots, self._queue, self._name = roots, queue, queue_name
        self._slurm, self._limits = slurm, Limits(slurm)
        self._seen: dict[tuple[str, int], _Seen] = {}

    def killed(self, attempt: Attempt) -> None:
        """The attempt was killed unasked."""
        self._remembered(attempt).is_killed = True

    def look(self, attempts: list[Attempt]) -> list[Observation]:
        """All of them, with one question to Slurm at most, and none where nothing is open."""
        settled = all(self._by_files(attempt) for attempt in attempts)
        rows: Rows = {} if settled else self._queue.rows()
        return [self._one(attempt, rows) for attempt in attempts]

    def _remembered(self, attempt: Attempt) -> _Seen:
        return self._seen.setdefault((attempt.job_id, attempt.number), _Seen())

    def _by_files(self, attempt: Attempt) -> bool:
        """Whether the attempt's own directory says that it is over."""
        seen, directory = self._remembered(attempt), self._roots.of(attempt)
        if seen.ending is None and os.path.exists(files_of(directory).over):
            seen.ending = _said(directory, seen) or written(directory, _killed(directory))
        return seen.ending is not None

    def _one(self, attempt: Attempt, rows: Rows) -> Observation:
        seen, directory = self._remembered(attempt), self._roots.of(attempt)
        row = row_of(rows, attempt)
        handle = None if row is None else row.id
        if seen.ending is None and row is not None:
            seen.missed = 0
            if row.state not in _ALIVE | _WAITS:
                seen.ending = self._ended(directory, seen, row)
        elif seen.ending is None and is_submitted(directory):
            seen.ending = self._missing(directory, seen)
        if seen.ending is not None:
            return ended(attempt, seen.ending)
        if (
            row is not None
            and row.state in _WAITS
            and not os.path.exists(files_of(directory).begun)
        ):
            return waiting(attempt, handle, self.waits(row))
        seen.running = seen.running or has_ranks(directory)
        return going_on(attempt, handle, running=seen.running)

    def waits(self, row: Row) -> Values:
        """Why a job is in the queue, as values of the cause."""
        return {"engine": self._name, "error": row.reason, **self._limits.values(row)}

    def _ended(self, directory: JobDir, seen: _Seen, row: Row) -> Ending:
        """Slurm says that it is over, and the batch step could not."""
        ending = _said(directory, seen)
        return ending or written(
            directory, _by_state(directory, row.state, row.nodes, _put_back(row))
        )

    def _missing(self, directory: JobDir, seen: _Seen) -> Ending | None:
        if self._queue.answers == seen.missed_in:
            return None
        seen.missed_in = self._queue.answers
        seen.missed += 1
        if seen.missed < _LOOKS or _beats(directory):
            return None
        said = _said(directory, seen)
        if said is not None:
            return said
        row = self._slurm.past(script.name(directory.job_id), _slurm_id(directory))
        if row is None:
            return written(directory, _forgotten(directory))
        return None if row.state in _ALIVE | _WAITS else self._ended(directory, seen, row)


def submitted_file(directory: JobDir) -> str:
    """Holds the id that Slurm gave the attempt."""
    return os.path.join(directory.control, "submitted.json")


def is_submitted(directory: JobDir) -> bool:
    """Whether Slurm was given the attempt, and said so."""
    return os.path.exists(submitted_file(directory)) or os.path.exists(files_of(directory).begun)


def is_away(directory: JobDir) -> bool:
    """Whether Slurm was given the attempt, and nothing says that it has ended."""
    is_over = os.path.exists(files_of(directory).over) or os.path.lexists(directory.said)
    return is_submitted(directory) and not is_over


def _slurm_id(directory: JobDir) -> str:
    """What Slurm calls the attempt, as far as its files tell."""
    for path in (files_of(directory).begun, submitted_file(directory)):
        try:
            return str(read_object(path).get("job", ""))
        except (OSError, Unusable):
            continue
    return ""


def _beats(directory: JobDir) -> bool:
    """Whether its batch step has shown life lately; it need not have begun to."""
    files = files_of(directory)
    if files.has_beat:
        return files.beats_since(STALE_S)
    try:
        return time.time() - os.stat(submitted_file(directory)).st_mtime < STALE_S
    except FileNotFoundError:
        return False


def _by_state(directory: JobDir, state: str, nodes: str, put_back: bool) -> Ending:
    """How it ended as Slurm alone tells it."""
    asked = read_stop(directory)
    if asked is not None and state in ("CANCELLED", "FAILED", "COMPLETED"):
        return _stopped(directory, asked)
    has_begun = os.path.exists(files_of(directory).begun)
    # By its owner while it waited, or by Slurm because its node did not start it.
    if state == "CANCELLED" and not has_begun and not nodes and not put_back:
        return _stopped(directory, "stopped")
    if state in ("TIMEOUT", "DEADLINE"):
        return _stopped(directory, "timed-out")
    if state == "PREEMPTED":
        return _stopped(directory, "preempted")
    if state in ("NODE_FAIL", "BOOT_FAIL") or (state == "CANCELLED" and not has_begun):
        where = nodes or "its node"
        return lost(directory, "node-lost", f"lost contact with node {where}", nodes=where)
    if state == "OUT_OF_MEMORY":
        return lost(directory, "out-of-memory", "the command was killed because memory ran out")
    return _killed(directory)


def _put_back(row: Row) -> bool:
    """Whether Slurm has put a job back that asked never to be: its node did not answer. Once that does, it has the
    job cancelled."""
    of_all = row.comment.split(":")[2:3] == [str(script.ALL_ATTEMPTS)]
    return row.restarts > 0 and not of_all


def _stopped(directory: JobDir, why: str) -> Ending:
    state, cause, reason = STOPS.get(why, STOPS["stopped"])
    return lost(directory, cause, reason)._replace(state=state)


def _killed(directory: JobDir) -> Ending:
    return lost(directory, "launcher-killed", "its supervisor and keeper were killed")


def _forgotten(directory: JobDir) -> Ending:
    asked = read_stop(directory)
    return _killed(directory) if asked is None else _stopped(directory, asked)


def _said(directory: JobDir, seen: _Seen) -> Ending | None:
    """In the attempt's own words; those of one that was being killed are of no use."""
    return None if seen.is_killed else read_ending(directory)
