"""Who keeps an attempt, and whether that keeper lives.

The claim is written aside, locked and linked into place: of several keepers one wins. The kernel
frees the lock when the keeper has ended, however it did, so a held lock means alive."""

import errno
import fcntl
import os
from typing import Any, Dict, NamedTuple, Optional, cast

from jumar.launch.jobdir import untrusted, whole
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.untrusted import Unusable
from jumar.launch.processes.process import Identity

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
    aside = whole.aside_name(directory.claim)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    handle = os.open(aside, flags, 0o600)
    try:
        _lock(handle, fcntl.LOCK_EX)
        whole.write_all(handle, whole.encode(claim.as_json()))
        os.link(aside, directory.claim)
    except FileExistsError:
        os.close(handle)
        return None
    except OSError:
        os.close(handle)
        raise
    finally:
        whole.remove(aside)
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
            value = untrusted.read_object(path, _MOST_BYTES)
        except FileNotFoundError:
            continue
        try:
            return Claim(
                _identity(value),
                # Before the lock, the keeper was called guard.
                _identity(value.get("keeper", value.get("guard"))),
                untrusted.text(value, "host"),
                untrusted.optional_text(value, "cgroup"),
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
    pid, ticks = untrusted.whole(known, "pid"), known.get("start_ticks")
    if pid <= 0 or not isinstance(ticks, int):
        raise Unusable("it does not say which process")
    return Identity(pid, ticks, untrusted.text(known, "boot_id"))
