"""Who keeps an attempt, and whether that keeper lives.

The claim is written aside, locked and linked into place: of several keepers one wins. The kernel
frees the lock when the keeper has ended, however it did, so a held lock means alive.

A person's own job can remove or replace its claim, and with that the lock; then only the list of
processes tells, as it does on a file system without locks. Keeper and supervisor of an attempt carry
its name in that list, its ranks carry it in their environment. Looked up at most once a pass, and
only when an attempt seems to have ended."""

import errno
import fcntl
import os
from typing import Any, Dict, Iterable, NamedTuple, Optional, Tuple, cast

from jumar.launch.jobdir import safefile
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.safefile import Unusable
from jumar.launch.processes import process
from jumar.launch.processes.process import Identity, Stat

_MOST_BYTES = 16384
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""A file system without locks: there the list of processes alone tells who lives."""
_NO_CLAIM = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


class Claim(NamedTuple):
    """The two processes of an attempt on one node; the keeper holds the lock."""

    supervisor: Identity
    keeper: Identity
    host: str
    cgroup: Optional[str]

    def as_json(self) -> Dict[str, Any]:
        """For claim.json; the supervisor's identity stands at the top."""
        return {
            **self.supervisor.as_json(),
            "host": self.host,
            "keeper": self.keeper.as_json(),
            "cgroup": self.cgroup,
        }


def take(directory: JobDir, claim: Claim) -> Optional[int]:
    """Claim the attempt. The descriptor holds the lock as long as it is open: no other process may
    inherit it. None: another keeper was quicker."""
    aside = safefile.aside_name(directory.claim)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    handle = os.open(aside, flags, 0o600)
    try:
        _lock(handle, fcntl.LOCK_EX)
        safefile.write_all(handle, safefile.encode(claim.as_json()))
        os.link(aside, directory.claim)
    except FileExistsError:
        os.close(handle)
        return None
    except OSError:
        os.close(handle)
        raise
    finally:
        safefile.remove(aside)
    return handle


def is_held(directory: JobDir) -> bool:
    """Whether the keeper of this node lives. Only this function knows how that is told; OSError:
    not known now."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    try:
        handle = os.open(directory.claim, flags)
    except OSError as error:
        if error.errno in _NO_CLAIM:
            return False
        raise
    try:
        return not _lock(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def is_claimed(directory: JobDir) -> bool:
    """Whether anybody has ever kept the attempt on this node."""
    return any(map(os.path.lexists, (directory.claim, directory.older_claim)))


def read_claim(directory: JobDir) -> Optional[Claim]:
    """None while nobody has claimed the attempt."""
    for path in (directory.claim, directory.older_claim):
        try:
            value = safefile.read_object(path, _MOST_BYTES)
        except FileNotFoundError:
            continue
        try:
            return Claim(
                _identity(value),
                # Before the lock, the keeper was called guard.
                _identity(value.get("keeper", value.get("guard"))),
                safefile.text(value, "host"),
                safefile.optional_text(value, "cgroup"),
            )
        except Unusable as error:
            raise Unusable(f"{path} is damaged: {error}") from error
    return None


def claimed_at(directory: JobDir) -> Optional[float]:
    """When the attempt was claimed, as far as its directory tells."""
    for path in (directory.claim, directory.older_claim):
        try:
            return os.stat(path).st_mtime
        except OSError:
            continue
    return None


def _lock(handle: int, kind: int) -> bool:
    """Whether nobody else holds a lock that is in the way."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _identity(value: object) -> Identity:
    if not isinstance(value, dict):
        raise Unusable("it does not say which process")
    known = cast("Dict[str, Any]", value)
    pid, ticks = safefile.whole(known, "pid"), known.get("start_ticks")
    if pid <= 0 or not isinstance(ticks, int):
        raise Unusable("it does not say which process")
    return Identity(pid, ticks, safefile.text(known, "boot_id"))


_OWN_PROGRAMS = frozenset({b"jumar.engine.local.warm", b"jumar.launch"})


class _Found(NamedTuple):
    keepers: Dict[str, Tuple[int, ...]]
    """Living keepers and supervisors by their name."""
    ranks: Dict[Tuple[str, int], Tuple[int, ...]]
    """Living processes by the job and attempt in their environment."""


class Census:
    """The processes at one moment: the one at which it is first asked. OSError: not known now."""

    def __init__(self) -> None:
        self._taken: Optional[_Found] = None

    def is_kept(self, directory: JobDir) -> bool:
        """Whether a keeper or a supervisor of the attempt lives."""
        return is_held(directory) or bool(self.keepers(directory))

    def keepers(self, directory: JobDir) -> Tuple[int, ...]:
        """The keeper and the supervisor of the attempt, as far as they live."""
        return self._found().keepers.get(directory.keeper_name, ())

    def ranks(self, directory: JobDir) -> Tuple[int, ...]:
        """Other living processes of the attempt."""
        return self._found().ranks.get((directory.job_id, directory.number), ())

    def _found(self) -> _Found:
        if self._taken is None:
            self._taken = _take()
        return self._taken


def _take() -> _Found:
    ranks: Dict[Tuple[str, int], Tuple[int, ...]] = {}
    living = [stat for stat in process.all_stats() if not stat.is_dead]
    keepers: Dict[str, Tuple[int, ...]] = {}
    for stat in living:
        key = _marked(process.environment_of(stat.pid))
        if key is not None:
            ranks[key] = (*ranks.get(key, ()), stat.pid)
        elif "." in stat.name and _is_ours(stat):
            # Anybody can call a process so; whoever bears the marks of a job is no keeper.
            keepers[stat.name] = (*keepers.get(stat.name, ()), stat.pid)
    return _Found(keepers, ranks)


def _is_ours(stat: Stat) -> bool:
    """Whether it is a program of the platform, run by this user."""
    try:
        is_own = os.stat(f"/proc/{stat.pid}").st_uid == os.geteuid()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return is_own and bool(_OWN_PROGRAMS.intersection(process.command_of(stat.pid)))


def keeps(identity: Identity, directory: JobDir) -> bool:
    """Whether just this process lives and keeps the attempt: a job may name any process in a claim."""
    stat = process.read_stat(identity.pid)
    if stat is None or not process.is_same(stat, identity):
        return False
    if stat.name == directory.keeper_name:
        return _is_ours(stat)
    return _is_unnamed_keeper(stat)


def _is_unnamed_keeper(stat: Stat) -> bool:
    """One that an earlier jumar has started, which gave it no name."""
    return stat.name.startswith("python") and _is_ours(stat)


def _marked(environment: Iterable[bytes]) -> Optional[Tuple[str, int]]:
    job_id, number = b"", b""
    for entry in environment:
        if entry.startswith(b"JUMAR_JOB_ID="):
            job_id = entry[13:]
        elif entry.startswith(b"JUMAR_ATTEMPT="):
            number = entry[14:]
    if not (job_id.isalnum() and number.isdigit() and len(number) < 10):
        return None
    return job_id.decode("ascii"), int(number)
