"""The job directory: where each file is, and how it is written so that no reader sees half of it.

Knows names and formats only; what they mean is the business of `attempt` and of the engine."""

import errno
import json
import os
import socket
import time
from typing import Any, Dict, NamedTuple, Optional, cast

from jumar.launch.process import Identity

FORMAT = 1
_RESERVED_BYTES = 16384


class Unusable(Exception):
    """A file of the job directory that cannot be read or does not say what it must."""


class JobDir(NamedTuple):
    """Paths below one job directory, for one attempt."""

    root: str
    number: int

    def path(self, *parts: str) -> str:
        """A path below the job directory."""
        return os.path.join(self.root, *parts)

    @property
    def attempt(self) -> str:
        """The folder of this attempt."""
        return self.path("attempts", str(self.number))

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
        return os.path.join(self.attempt, "claim.json")

    @property
    def ranks(self) -> str:
        """Written when the ranks have been started."""
        return os.path.join(self.attempt, "ranks.json")

    @property
    def stop(self) -> str:
        """Asks this attempt to end; the ranks know it as JUMAR_STOP_FILE."""
        return os.path.join(self.attempt, "stop.json")

    @property
    def result(self) -> str:
        """How this attempt ended."""
        return os.path.join(self.attempt, "result.json")

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


def read_json(path: str) -> Dict[str, Any]:
    """The object in a file; raises FileNotFoundError or Unusable."""
    try:
        with open(path, encoding="utf-8") as file:
            value: object = json.load(file)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise Unusable(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise Unusable(f"{path} does not hold a JSON object")
    return cast("Dict[str, Any]", value)


def write_json(path: str, value: Dict[str, Any]) -> None:
    """Write aside and rename."""
    aside = f"{path}.{os.getpid()}.new"
    try:
        _write(aside, _encode(value), os.O_TRUNC, durable=False)
        os.rename(aside, path)
    except OSError:
        _remove(aside)
        raise


def create_json(path: str, value: Dict[str, Any]) -> bool:
    """Write it whole unless it is there already; whether this call made it."""
    aside = f"{path}.{os.getpid()}.new"
    try:
        _write(aside, _encode(value), os.O_TRUNC, durable=False)
        os.link(aside, path)
    except FileExistsError:
        return False
    finally:
        _remove(aside)
    return True


def read_claim(directory: JobDir) -> Optional[Claim]:
    """None while nobody has claimed the attempt."""
    try:
        value = read_json(directory.claim)
    except FileNotFoundError:
        return None
    try:
        return Claim(_identity(value), _identity(value["guard"]), value["host"], value["cgroup"])
    except (KeyError, TypeError) as error:
        raise Unusable(f"{directory.claim} is damaged: {error}") from error


def read_ending(directory: JobDir) -> Optional[Ending]:
    """None while the attempt has not ended."""
    try:
        value = read_json(directory.result)
    except FileNotFoundError:
        return None
    try:
        return Ending(**{name: value[name] for name in Ending._fields if name in value})
    except TypeError as error:
        raise Unusable(f"{directory.result} is damaged: {error}") from error


def read_stop(directory: JobDir) -> Optional[str]:
    """Why the attempt shall end; None while nobody asks."""
    try:
        return str(read_json(directory.stop).get("why", "stopped"))
    except FileNotFoundError:
        return None
    except Unusable:
        # The file is there: whatever it holds, somebody wants an end.
        return "stopped"


def forget_keys(directory: JobDir) -> None:
    """The attempt needs its user's keys no more."""
    _remove(directory.store_file)


def reserve_result(directory: JobDir) -> None:
    """Take the disk space of the result now: at the end the disk may be full."""
    handle = os.open(_aside(directory), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.posix_fallocate(handle, 0, _RESERVED_BYTES)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
    finally:
        os.close(handle)


def write_ending(directory: JobDir, ending: Ending) -> None:
    """The last thing written of an attempt; uses the reserved space."""
    data = _encode(ending._asdict())
    if len(data) > _RESERVED_BYTES:
        keep = max(0, len(ending.tail) - (len(data) - _RESERVED_BYTES) - 16)
        # Escapes make JSON longer than the text, so half of what fits is safe.
        data = _encode(ending._replace(tail=ending.tail[-keep // 2 :] if keep else "")._asdict())
    aside = _aside(directory)
    _write(aside, data, 0, durable=True)
    os.rename(aside, directory.result)


class Journal:
    """events.jsonl and the hint to the server. A full disk costs the event, not the job."""

    def __init__(self, directory: JobDir, job_id: str, notify: Optional[str]) -> None:
        self._path = directory.path("events.jsonl")
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
        if not self._notify:
            return
        try:
            _send(self._notify, _encode({"job_id": self._job_id}))
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


def _identity(value: Dict[str, Any]) -> Identity:
    return Identity(int(value["pid"]), int(value["start_ticks"]), str(value["boot_id"]))


def _encode(value: Dict[str, Any]) -> bytes:
    # A lone surrogate, from a path that is not UTF-8, so becomes a JSON escape and comes back.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _aside(directory: JobDir) -> str:
    return f"{directory.result}.new"


def _write(path: str, data: bytes, flags: int, durable: bool) -> None:
    # For one user only: job.json may hold secrets, in variables or in the address of a repository.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        if not flags & os.O_TRUNC:
            os.ftruncate(handle, len(data))
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)


def _append(path: str, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
