"""What an attempt says of itself: events while it runs, a hint to the server that something happened,
and how it ended: what its supervisor said, and what its keeper saw.

The words (state, cause, last lines) are the job's own and stored as they came; that it has ended and
when is known from the keeper. Readers put both together."""

import errno
import os
import socket
import time
from typing import Any, Dict, List, NamedTuple, Optional, Union, cast

from jumar.launch.jobdir import safefile
from jumar.launch.jobdir.claims import claimed_at
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.safefile import Unusable

ENDINGS = frozenset({"succeeded", "failed", "stopped", "timed-out", "preempted", "lost"})
"""The states that an attempt may end in."""
MOST_WORDS = 16384
"""Bytes that a supervisor may say about the end."""
_MOST_SEEN = 512
_MOST_START = 4096
_MOST_REASON = 2000
_MOST_READ = 65536


Values = Dict[str, Union[str, int]]
NO_VALUES: Values = {}


class Ending(NamedTuple):
    """The supervisor's last words; those of node 0 are the verdict for all nodes."""

    state: str
    cause: str
    reason: str
    exit_code: Optional[int] = None
    signal: Optional[str] = None
    node: Optional[int] = None
    rank: Optional[int] = None
    tail: str = ""
    started_at: Optional[float] = None
    finished_at: Optional[float] = None
    values: Values = NO_VALUES
    """What the cause is said with; `reason` is the same in English."""
    ending_at: Optional[float] = None
    """When the first rank failed, or all were asked to end."""
    saved: Optional[str] = None
    """The checkpoint that was written last, and whole."""
    advanced: Optional[bool] = None
    """Whether this attempt has written it; None: nobody knows."""


class Seen(NamedTuple):
    """What the keeper saw."""

    code: Optional[int]
    """The supervisor's exit code, or minus the signal that killed it; None: nobody saw it."""
    started_at: Optional[float]
    finished_at: Optional[float]
    is_empty: bool
    """Whether no process is left."""


def reserve_result(directory: JobDir) -> None:
    """Take the disk space of the ending now: at the end the disk may be full. Twice is once."""
    safefile.reserve(directory.said, MOST_WORDS)
    safefile.reserve(directory.result, _MOST_SEEN)


def reserve_start(directory: JobDir) -> None:
    """Take the disk space of `write_start`: the first thing that ranks do may be to fill the disk."""
    safefile.reserve(directory.ranks, _MOST_START)


def write_start(directory: JobDir, pids: List[int], log_at: int) -> None:
    """Let the engine see that the ranks run."""
    start = {"started_at": time.time(), "pids": pids, "log_at": log_at}
    safefile.write_reserved(directory.ranks, safefile.encode(start), durable=False)


def write_beside(directory: JobDir, values: Dict[str, Any]) -> None:
    """What a command beside the ranks needs to know of them (`node/beside.py`), for the job's user alone."""
    safefile.write_json(directory.beside, values)


def words_of(ending: Ending) -> bytes:
    """As a supervisor says it: at most MOST_WORDS bytes."""
    if len(ending.reason) > _MOST_REASON:
        ending = ending._replace(reason=ending.reason[:_MOST_REASON] + "…")
    if ending.saved is not None and len(ending.saved) > _MOST_REASON:
        ending = ending._replace(saved=None)
    ending = ending._replace(values={name: _short(v) for name, v in ending.values.items()})
    data = safefile.encode(ending._asdict())
    if len(data) <= MOST_WORDS:
        return data
    keep = max(0, len(ending.tail) - (len(data) - MOST_WORDS) - 16)
    # Escapes make JSON longer than the text, so half of what fits is safe.
    return safefile.encode(
        ending._replace(tail=ending.tail[-keep // 2 :] if keep else "")._asdict()
    )


def _short(value: Union[str, int]) -> Union[str, int]:
    return value if isinstance(value, int) else value[:_MOST_REASON]


def write_words(directory: JobDir, words: bytes) -> None:
    """Store what a supervisor said, unread, in the reserved space."""
    safefile.write_reserved(directory.said, words)


def write_seen(directory: JobDir, seen: Seen) -> None:
    """The last thing written of an attempt on a node, in the reserved space."""
    safefile.write_reserved(directory.result, safefile.encode(seen._asdict()))


def forget_keys(directory: JobDir) -> None:
    """The attempt no longer needs its user's keys, nor its variables."""
    safefile.remove(directory.store_file)
    safefile.remove(directory.beside)


def lost(directory: JobDir, cause: str, reason: str, **values: Union[str, int]) -> Ending:
    """The ending of an attempt whose supervisor could not tell it."""
    begun, now = claimed_at(directory), time.time()
    return Ending("lost", cause, reason, started_at=begun, finished_at=now, values=values)


def write_ending(directory: JobDir, ending: Ending, code: Optional[int] = None) -> None:
    """Write an ending down where keeper or supervisor cannot do their part of it."""
    forget_keys(directory)
    write_words(directory, words_of(ending))
    write_seen(directory, Seen(code, ending.started_at, ending.finished_at, is_empty=True))


def read_ending(directory: JobDir) -> Optional[Ending]:
    """None while nobody has said how the attempt ended."""
    try:
        value = safefile.read_object(directory.said, _MOST_READ, directory.top)
    except FileNotFoundError:
        return None
    try:
        ending = _ending(value)
    except Unusable as error:
        raise Unusable(f"{directory.said} is damaged: {error}") from error
    seen = _read_seen(directory)
    if seen is None:
        return ending
    return ending._replace(started_at=seen.started_at, finished_at=seen.finished_at)


def _read_seen(directory: JobDir) -> Optional[Seen]:
    try:
        value = safefile.read_object(directory.result, _MOST_READ, directory.top)
        return Seen(
            safefile.optional_whole(value, "code"),
            safefile.optional_time(value, "started_at"),
            safefile.optional_time(value, "finished_at"),
            value.get("is_empty") is True,
        )
    except (FileNotFoundError, Unusable):
        # An earlier jumar wrote none, and a job may write anything.
        return None


def _ending(value: Dict[str, Any]) -> Ending:
    state = safefile.text(value, "state")
    if state not in ENDINGS:
        raise Unusable(f"{state[:40]!r} is not a state that an attempt ends in")
    return Ending(
        state=state,
        cause=safefile.text(value, "cause"),
        reason=safefile.text(value, "reason")[:_MOST_REASON],
        exit_code=safefile.optional_whole(value, "exit_code"),
        signal=safefile.optional_text(value, "signal"),
        node=safefile.optional_whole(value, "node"),
        rank=safefile.optional_whole(value, "rank"),
        tail=safefile.optional_text(value, "tail") or "",
        started_at=safefile.optional_time(value, "started_at"),
        finished_at=safefile.optional_time(value, "finished_at"),
        values=_values(value.get("values")),
        ending_at=safefile.optional_time(value, "ending_at"),
        saved=safefile.optional_text(value, "saved"),
        advanced=value.get("advanced") if isinstance(value.get("advanced"), bool) else None,
    )


def _values(found: object) -> Values:
    """Only what can be a value: a job may have written the file."""
    if not isinstance(found, dict):
        return {}
    named = cast("Dict[str, object]", found)
    return {name: value for name, value in named.items() if isinstance(value, (str, int))}


class Journal:
    """events.jsonl and the hint to the server. A full disk costs the event, not the job."""

    def __init__(self, directory: JobDir, job_id: str, notify: Optional[str]) -> None:
        self._path = directory.events
        self._attempt = directory.number
        self._job_id = job_id
        self._notify = notify
        self.disk_full = False

    def add(self, event: str, **details: Any) -> None:
        """Append one line."""
        line = {"at": time.time(), "attempt": self._attempt, "event": event, **details}
        try:
            safefile.append(self._path, safefile.encode(line) + b"\n")
        except OSError as error:
            self.disk_full = self.disk_full or error.errno in (errno.ENOSPC, errno.EDQUOT)

    def hint(self) -> None:
        """Tell the server, if it listens, to look at the directory."""
        if self._notify:
            send_hint(self._notify, self._job_id)


def send_hint(notify: str, job_id: str) -> None:
    """Tell the server, if it listens at `notify`, that a job has changed."""
    try:
        _send(notify, safefile.encode({"job_id": job_id}))
    except OSError:
        # Only a hint: the server also looks by itself.
        return


def _send(path: str, data: bytes) -> None:
    # An address has room for 107 bytes only; through an open folder it is short however deep.
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(data, f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)
