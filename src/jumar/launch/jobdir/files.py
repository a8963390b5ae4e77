"""The job directory: where each file is, and how it is written so that no reader sees half of it.

Knows names and formats only; what they mean is the business of `attempt` and of the engine."""

import errno
import json
import os
import socket
import stat
import time
from typing import Any, Dict, NamedTuple, Optional, cast

from jumar.launch.jobdir import untrusted
from jumar.launch.jobdir.untrusted import Unusable
from jumar.launch.processes.process import Identity

FORMAT = 1
ENDINGS = frozenset({"succeeded", "failed", "stopped", "timed-out", "preempted", "lost"})
"""The states that a result may have."""
# Where a job has put a pipe or a link, writing fails instead of waiting or following.
_NEW_OR_PLAIN = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
_RESERVED_BYTES = 16384
_MOST_CLAIM_BYTES = 16384
_MOST_REASON = 2000
_MOST_RESULT_BYTES = 65536


class JobDir(NamedTuple):
    """Paths below one job directory, for one attempt."""

    root: str
    number: int
    node: int = 0

    def path(self, *parts: str) -> str:
        """A path below the job directory."""
        return os.path.join(self.root, *parts)

    @property
    def job_id(self) -> str:
        """A job directory is named after its job."""
        return os.path.basename(self.root)

    @property
    def keeper_name(self) -> str:
        """What the guard and the supervisor of this attempt are called in the list of processes;
        the kernel has room for 15 characters."""
        node = f".{self.node}" if self.node else ""
        return f"{self.job_id}.{self.number}{node}"[:15]

    @property
    def attempt(self) -> str:
        """The folder of this attempt."""
        return self.path("attempts", str(self.number))

    @property
    def node_folder(self) -> str:
        """The folder of this node in this attempt."""
        return os.path.join(self.attempt, f"node{self.node}") if self.node else self.attempt

    @property
    def job(self) -> str:
        """What to run."""
        return self.path("job.json")

    @property
    def request(self) -> str:
        """What the engine gives to this attempt."""
        return os.path.join(self.attempt, "request.json")

    @property
    def claim(self) -> str:
        """Who runs this attempt."""
        return os.path.join(self.node_folder, "claim.json")

    @property
    def ranks(self) -> str:
        """Written when the ranks have been started."""
        return os.path.join(self.node_folder, "ranks.json")

    @property
    def stop(self) -> str:
        """Asks this attempt to end; the ranks know it as JUMAR_STOP_FILE."""
        return os.path.join(self.attempt, "stop.json")

    @property
    def stop_ready(self) -> str:
        """A stop file that waits to be renamed: on a full disk none could be written."""
        return os.path.join(self.attempt, "stop.ready.json")

    @property
    def result(self) -> str:
        """How this attempt ended on this node."""
        return os.path.join(self.node_folder, "result.json")

    @property
    def events(self) -> str:
        """One line per event of this node, over all attempts."""
        return self.path(f"events.node{self.node}.jsonl" if self.node else "events.jsonl")

    @property
    def pod_env(self) -> str:
        """What scripts of other platforms source on this node."""
        return self.path(f"pod.node{self.node}.env" if self.node else "pod.env")

    @property
    def store_file(self) -> str:
        """The stores and keys of the job's user, while this attempt runs; the ranks know it as
        JUMAR_STORE_FILE."""
        return os.path.join(self.attempt, "store.json")

    @property
    def trial(self) -> str:
        """What a run on simulated NPUs has shown."""
        return self.path("trial.json")

    def log(self, node: int, rank: int) -> str:
        """What one rank writes, over all attempts."""
        return self.path("logs", f"node{node}", f"rank{rank}.log")

    def setup_log(self, node: int) -> str:
        """What git and pip write while the attempt is prepared."""
        return self.path("logs", f"node{node}", "setup.log")

    def staging_log(self, node: int) -> str:
        """What the programs write that carry data."""
        return self.path("logs", f"node{node}", "staging.log")


class Claim(NamedTuple):
    """Who runs an attempt: it is dead only when both are."""

    supervisor: Identity
    guard: Identity
    host: str
    cgroup: Optional[str]

    def as_json(self) -> Dict[str, Any]:
        """For claim.json; the supervisor's identity stands at the top."""
        return {
            **self.supervisor.as_json(),
            "host": self.host,
            "guard": self.guard.as_json(),
            "cgroup": self.cgroup,
        }


class Ending(NamedTuple):
    """result.json."""

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


def write_json(path: str, value: Dict[str, Any]) -> None:
    """Write aside and rename."""
    aside = _write_aside(path, value)
    try:
        os.rename(aside, path)
    except OSError:
        _remove(aside)
        raise


def create_json(path: str, value: Dict[str, Any]) -> bool:
    """Write it whole unless it is there already; whether this call made it."""
    aside = _write_aside(path, value)
    try:
        os.link(aside, path)
    except FileExistsError:
        return False
    finally:
        _remove(aside)
    return True


def _write_aside(path: str, value: Dict[str, Any]) -> str:
    # A name that a job cannot know beforehand, and put a pipe or a link there.
    aside = f"{path}.{os.urandom(6).hex()}.new"
    try:
        _write(aside, _encode(value), os.O_EXCL, durable=False)
    except OSError:
        _remove(aside)
        raise
    return aside


def read_claim(directory: JobDir) -> Optional[Claim]:
    """None while nobody has claimed the attempt."""
    try:
        value = untrusted.read_object(directory.claim, _MOST_CLAIM_BYTES)
    except FileNotFoundError:
        return None
    try:
        return Claim(
            _identity(value),
            _identity(value.get("guard")),
            untrusted.text(value, "host"),
            untrusted.optional_text(value, "cgroup"),
        )
    except Unusable as error:
        raise Unusable(f"{directory.claim} is damaged: {error}") from error


def is_plain(directory: JobDir) -> bool:
    """Whether the folders of the attempt are the platform's own: a job may put links in their place,
    and what is written through them lands elsewhere."""
    folders = (directory.root, os.path.dirname(directory.attempt), directory.attempt)
    return all(os.path.isdir(folder) and not os.path.islink(folder) for folder in folders)


def claimed_at(directory: JobDir) -> Optional[float]:
    """When the attempt was claimed, as far as its directory tells."""
    try:
        return os.stat(directory.claim).st_mtime
    except OSError:
        return None


def read_ending(directory: JobDir) -> Optional[Ending]:
    """None while the attempt has not ended."""
    try:
        value = untrusted.read_object(directory.result, _MOST_RESULT_BYTES)
    except FileNotFoundError:
        return None
    try:
        return _ending(value)
    except Unusable as error:
        raise Unusable(f"{directory.result} is damaged: {error}") from error


def _ending(value: Dict[str, Any]) -> Ending:
    state = untrusted.text(value, "state")
    if state not in ENDINGS:
        raise Unusable(f"{state[:40]!r} is not a state that an attempt ends in")
    return Ending(
        state=state,
        cause=untrusted.text(value, "cause"),
        reason=untrusted.text(value, "reason"),
        exit_code=untrusted.optional_whole(value, "exit_code"),
        signal=untrusted.optional_text(value, "signal"),
        node=untrusted.optional_whole(value, "node"),
        rank=untrusted.optional_whole(value, "rank"),
        tail=untrusted.optional_text(value, "tail") or "",
        started_at=untrusted.optional_time(value, "started_at"),
        finished_at=untrusted.optional_time(value, "finished_at"),
    )


def read_stop(directory: JobDir) -> Optional[str]:
    """Why the attempt shall end; None while nobody asks, or while that cannot be told."""
    try:
        return str(untrusted.read_object(directory.stop).get("why", "stopped"))
    except OSError:
        return None
    except Unusable:
        # The file is there: whatever it holds, somebody wants an end.
        return "stopped"


def prepare_stop(directory: JobDir) -> None:
    """Make room for a later request to stop."""
    create_json(directory.stop_ready, {"why": "stopped"})


def ask_to_stop(directory: JobDir, why: str) -> None:
    """Ask the attempt to end; once is enough. Needs no room on the disk where it was prepared."""
    if os.path.lexists(directory.stop):
        return
    try:
        create_json(directory.stop, {"why": why})
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        os.rename(directory.stop_ready, directory.stop)


def forget_keys(directory: JobDir) -> None:
    """The attempt needs its user's keys no more."""
    _remove(directory.store_file)


def reserve_result(directory: JobDir) -> None:
    """Take the disk space of the result now: at the end the disk may be full. Twice is once."""
    aside = _aside(directory)
    if _is_reserved(aside):
        return
    _remove(aside)
    handle = os.open(aside, _NEW_OR_PLAIN | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(handle, 0, _RESERVED_BYTES)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
    finally:
        os.close(handle)


def _is_reserved(path: str) -> bool:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_blocks * 512 >= _RESERVED_BYTES


def write_ending(directory: JobDir, ending: Ending) -> None:
    """The last thing written of an attempt; uses the reserved space."""
    if len(ending.reason) > _MOST_REASON:
        ending = ending._replace(reason=ending.reason[:_MOST_REASON] + "…")
    data = _encode(ending._asdict())
    if len(data) > _RESERVED_BYTES:
        keep = max(0, len(ending.tail) - (len(data) - _RESERVED_BYTES) - 16)
        # Escapes make JSON longer than the text, so half of what fits is safe.
        data = _encode(ending._replace(tail=ending.tail[-keep // 2 :] if keep else "")._asdict())
    aside = _aside(directory)
    try:
        _write(aside, data, 0, durable=True)
    except OSError as error:
        if error.errno not in (errno.ENXIO, errno.ELOOP, errno.EISDIR):
            raise
        # The job has put something else in the place of the reserved file.
        aside = _write_aside(directory.result, ending._asdict())
    os.rename(aside, directory.result)


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
            _append(self._path, _encode(line) + b"\n")
        except OSError as error:
            self.disk_full = self.disk_full or error.errno in (errno.ENOSPC, errno.EDQUOT)

    def hint(self) -> None:
        """Tell the server, if it listens, to look at the directory."""
        if self._notify:
            send_hint(self._notify, self._job_id)


def send_hint(notify: str, job_id: str) -> None:
    """Tell the server, if it listens at `notify`, that a job has changed."""
    try:
        _send(notify, _encode({"job_id": job_id}))
    except OSError:
        # Only a hint: the server also looks by itself.
        return


def _send(path: str, data: bytes) -> None:
    # An address has room for 107 bytes only; through an open folder it is short however deep.
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
            door.setblocking(False)
            door.sendto(data, f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)


def _identity(value: object) -> Identity:
    if not isinstance(value, dict):
        raise Unusable("it does not say which process")
    known = cast("Dict[str, Any]", value)
    pid, ticks = untrusted.whole(known, "pid"), known.get("start_ticks")
    if pid <= 0 or not isinstance(ticks, int):
        raise Unusable("it does not say which process")
    return Identity(pid, ticks, untrusted.text(known, "boot_id"))


def _encode(value: Dict[str, Any]) -> bytes:
    # A lone surrogate, from a path that is not UTF-8, so becomes a JSON escape and comes back.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _aside(directory: JobDir) -> str:
    return f"{directory.result}.new"


def _write(path: str, data: bytes, flags: int, durable: bool) -> None:
    # For one user only: job.json may hold secrets, in variables or in the address of a repository.
    handle = os.open(path, _NEW_OR_PLAIN | flags, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        os.ftruncate(handle, len(data))
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)


def _append(path: str, data: bytes) -> None:
    handle = os.open(path, _NEW_OR_PLAIN | os.O_APPEND, 0o644)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        # A folder that a job has put there is not what was to be removed.
        return
