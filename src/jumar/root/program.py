"""Root's program of a site: the whole of what jumar does as root.

It changes identity, and nothing else: the server decides what runs, the launcher runs it as the user.
Run as `python -I program.py SITE_TOML`. Standard library only.

Protocol
    A SEQPACKET socket, for the server's account alone (SO_PEERCRED). One connection carries one JSON
    object of at most 8 KiB and gets one answer: {"ok": true, …} or {"no": WORDS, "code": CODE}; of a
    disk that is full or closed (codes "full", "closed") with the "path" too. Each verb has exactly these
    fields, next to "v": 1 and "do":

    start   kind, job, attempt, user, uid, cards, kill_at, memory, cpus
            kind "attempt", with read-only regular descriptors: what the launcher is told (a memfd), then
            tar files of the code and of inputs, at most 17. "already": true when somebody has claimed it.
            kind "beside" (exec, shell): one stream socket; in the namespace and the cgroup of a
            living attempt.
            kind "sbatch": a stream socket, then descriptors as of "attempt"; the launcher speaks to Slurm
            as the user and answers over the stream. Where SITE_TOML allows that (slurm = true).
    signal  job, attempt, why (stopped, timed-out, preempted: the launcher is asked; lost: all is killed)
    lost    job, attempt: whose keeper is dead; ends what is left and writes the result
    files   job, op, paths: "open" passes a descriptor for each of up to 64 plain files, "list" passes
            one with a JSON list of what is below the first path, "size" tells how many "bytes" that takes
            on the disk (of "." with the job's /tmp) and what could not be counted ("unseen"), "kept"
            the same of what the user keeps for all jobs
    remove  job: all files of a job that has ended
    sweep   hard, with one descriptor: the pidfd of a process to end (SIGTERM, or SIGKILL), where SITE_TOML
            allows that. It must hold a card's device, belong to a person and to no job; who looks at it
            and ends it is a child that has become that person.

Who may be acted for stands in SITE_TOML, which only root can write: never uid 0, never below uid_min.
Whose a job is stands in control/JOB/owner, written once.

What it never does: take an argument, a variable or a number of a process from a message; look at a path of a user before
it has become that user; read a descriptor it was given; parse what a job says; use the network; execute
anything but the launcher that SITE_TOML names, which only root can write."""

import contextlib
import ctypes
import errno
import fcntl
import grp
import itertools
import json
import math
import os
import platform
import pwd
import re
import resource
import select
import shutil
import signal
import socket
import stat
import struct
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, cast

MOST_BYTES = 8192
MOST_SAID = 16384
MOST_LAST_WORDS = 16
MOST_PATHS = 64
MOST_PATH = 4096
MOST_LISTED = 10_000
MOST_ATTEMPTS = 99_999
"""Of one job; the server ends it before it would ask for more (`spec/states.py`)."""
MOST_INPUTS = 16
"""Tar files of inputs that an attempt may be given."""
MOST_WORKERS = 256
MOST_MEMORY = 1 << 30
"""What a child that reads as a user may take."""
MOST_STOPS = 100
"""How often a supervisor may be stopped, and is woken, before it is killed."""
READ_LIMIT_S = 2.0
WORK_LIMIT_S = 5.0
FILES_LIMIT_S = 2 * WORK_LIMIT_S
"""How long a child that is the user may read; whoever waits for it has longer, and ends it then."""
SIZE_LIMIT_S = 100.0
"""How long it may count; of a tree that takes longer, what was seen by then."""
REMOVE_LIMIT_S = 900.0
ACCOUNT_LIMIT_S = 15.0
"""How long the system may take to tell an account's groups: behind it may be a directory server."""
SLURM_LIMIT_S = 60.0
"""How long a launcher may speak to Slurm."""
NOBODY = 65534
GROUP_OF_JOBS = "jumar-jobs"
"""The cgroup above those of all attempts."""
WHYS = ("stopped", "timed-out", "preempted", "lost")
_JOB = re.compile(r"[a-z][a-z0-9]{9}\Z", re.ASCII)
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._@-]{0,63}\Z", re.ASCII)
_CARD = re.compile(r"(davinci|nvidia)[0-9]{1,4}\Z", re.ASCII)
# The kernel has room for 15 letters: of longer numbers the first four digits.
KEEPER = re.compile(r"[a-z][a-z0-9]{9}\.[0-9]{1,4}\Z", re.ASCII)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_PASSING = (*_FULL, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """A request that is not carried out; `code` is for programs."""

    def __init__(self, words: str, code: str = "refused") -> None:
        super().__init__(words)
        self.code = code


# --- the site -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Site:
    """SITE_TOML."""

    server: str
    """The account of the server."""
    state: str
    run: str
    """The folder of the server's socket for people."""
    root_run: str
    """The folder of this program's socket."""
    launcher: list[str]
    users: list[str]
    """Names of accounts, or "*" for all from uid_min on."""
    uid_min: int = 1000
    uid_max: int = 60000
    umask: int = 0o027
    fences: bool = True
    setuid_programs: bool = False
    slurm: bool = False
    """Whether jobs may be given to Slurm, as their users."""
    sweep: bool = False
    """Whether the server's sweep may end people's processes that hold cards without a job."""
    cgroup: str = "auto"
    """auto, v1 or none."""
    processes: int = 0
    """How many processes and threads a job may have; 0 means a quarter of what the machine can have."""
    admin_group: str = ""
    variables: dict[str, str]
    map: dict[str, str]
    """Unix accounts by the names of web accounts: for the server, not looked at here."""

    @property
    def job_run(self) -> str:
        """The folder of the server's socket for jobs, which they see in place of `run`."""
        return f"{self.run}-job"

    @property
    def server_ids(self) -> tuple[int, int]:
        found = pwd.getpwnam(self.server)
        return found.pw_uid, found.pw_gid

    def control(self, job: str, *parts: str) -> str:
        return os.path.join(self.state, "control", job, *parts)

    def job(self, job: str, *parts: str) -> str:
        return os.path.join(self.state, "jobs", job, *parts)


def check_roots_own(path: str) -> None:
    """Refuse a path that anybody but root could change, or a folder above it."""
    if not os.path.isabs(path) or os.path.normpath(path) != path:
        raise Refused(f"{path} is not an absolute, plain path")
    place = path
    while True:
        found = os.lstat(place)
        if found.st_uid != 0 or (not stat.S_ISLNK(found.st_mode) and found.st_mode & 0o022):
            raise Refused(f"{place} can be changed by others than root")
        if stat.S_ISLNK(found.st_mode) and place == path:
            check_roots_own(os.path.realpath(place))
        if place == "/":
            return
        place = os.path.dirname(place)


def read_site(path: str) -> Site:
    """The site as it stands now; Refused where the file is not root's alone or makes no sense."""
    check_roots_own(path)
    try:
        with open(path, "rb") as file:
            values = tomllib.load(file)
        values.setdefault("users", ["*"])
        values.setdefault("variables", {})
        values.setdefault("map", {})
        site = Site(**values)
    except (OSError, ValueError, TypeError) as error:
        raise Refused(f"{path}: {error}") from error
    texts = [site.server, site.state, site.run, site.root_run, site.admin_group]
    texts += [*site.launcher, *site.users, *site.variables, *site.variables.values()]
    if not all(isinstance(text, str) for text in texts) or not site.launcher:  # pyright: ignore[reportUnnecessaryIsInstance] - it comes from a file
        raise Refused(f"{path}: a value is not a text")
    numbers = (site.uid_min, site.uid_max, site.umask, site.processes)
    if any(type(number) is not int for number in numbers) or site.processes < 0:
        raise Refused(f"{path}: uid_min, uid_max, umask and processes must be whole numbers")
    if site.uid_min < 1 or site.uid_max >= NOBODY:
        raise Refused(f"{path}: uid_min must be above 0, uid_max below {NOBODY}")
    return site


def account(site: Site, name: str, uid: int) -> pwd.struct_passwd:
    """The account to act for, if that is allowed."""
    try:
        found = pwd.getpwnam(name)
        by_uid = pwd.getpwuid(uid)
    except KeyError:
        raise Refused(f"there is no account {name} with uid {uid}", "account") from None
    if found.pw_uid != uid or by_uid.pw_name != name:
        raise Refused(f"the account {name} does not have uid {uid}", "account")
    check_person(site, uid)
    if "*" not in site.users and name not in site.users:
        raise Refused(f"{name} is not among the users of the site", "account")
    groups = set(os.getgrouplist(name, found.pw_gid))
    if 0 in groups or site.server_ids[1] in groups:
        raise Refused(f"{name} is in a group of root or of the server", "account")
    if found.pw_shell not in _shells():
        raise Refused(f"{name} has no login shell", "account")
    return found


def check_person(site: Site, uid: int) -> None:
    """Refuse what is never acted for, whatever its account says."""
    if not max(1, site.uid_min) <= uid <= site.uid_max or uid == site.server_ids[0]:
        raise Refused(f"uid {uid} is that of a system account, not of a person", "account")


def _shells() -> set[str]:
    try:
        with open("/etc/shells", encoding="utf-8") as file:
            found = {line.strip() for line in file if line.startswith("/")}
    except FileNotFoundError:
        found = {"/bin/sh", "/bin/bash"}
    return {shell for shell in found if not shell.endswith(("/nologin", "/false"))}


# --- requests -----------------------------------------------------------------------------------


def _is_text(value: object, pattern: re.Pattern[str]) -> bool:
    return type(value) is str and pattern.match(value) is not None


def _is_whole(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _is_path(value: object) -> bool:
    if type(value) is not str or "\0" in value:
        return False
    try:
        return len(value.encode()) <= MOST_PATH
    except UnicodeEncodeError:
        return False


def _is_list(value: object, fits: Callable[[object], bool], most: int) -> bool:
    items = cast("list[object]", value) if type(value) is list else None
    return items is not None and len(items) <= most and all(map(fits, items))


_FIELDS: dict[str, Callable[[object], bool]] = {
    "v": lambda value: _is_whole(value, 1, 1),
    "kind": lambda value: value in ("attempt", "beside", "sbatch"),
    "job": lambda value: _is_text(value, _JOB),
    "attempt": lambda value: _is_whole(value, 1, MOST_ATTEMPTS),
    "user": lambda value: _is_text(value, _USER),
    "uid": lambda value: _is_whole(value, 1, NOBODY - 1),
    "cards": lambda value: _is_list(value, lambda card: _is_text(card, _CARD), 256),
    "kill_at": lambda value: (
        value is None
        or (
            type(value) in (int, float)
            # Compared first: an integer may be too large to be a float.
            and 0 < cast("float", value) < 1e11
            and math.isfinite(cast("float", value))
        )
    ),
    "memory": lambda value: value is None or _is_whole(value, 1 << 20, 1 << 50),
    "cpus": lambda value: value is None or _is_whole(value, 1, 1 << 16),
    "why": lambda value: type(value) is str and value in WHYS,
    "op": lambda value: value in ("open", "list", "size", "kept"),
    "paths": lambda value: _is_list(value, _is_path, MOST_PATHS) and bool(value),
    "hard": lambda value: type(value) is bool,
}
_VERBS = {
    "start": ("kind", "job", "attempt", "user", "uid", "cards", "kill_at", "memory", "cpus"),
    "signal": ("job", "attempt", "why"),
    "lost": ("job", "attempt"),
    "files": ("job", "op", "paths"),
    "remove": ("job",),
    "sweep": ("hard",),
}


def parse(data: bytes) -> dict[str, Any]:
    """A request, if it is one; every field is what it must be."""
    if len(data) > MOST_BYTES:
        raise Refused("the request is too long")
    try:
        value: object = json.loads(data.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise Refused("the request is not JSON") from None
    if type(value) is not dict:
        raise Refused("the request is not an object")
    request = cast("dict[str, Any]", value)
    verb = request.get("do")
    if type(verb) is not str or verb not in _VERBS:
        raise Refused("the verb is not known")
    if set(request) != {"v", "do", *_VERBS[verb]}:
        raise Refused(f"{verb} has other fields")
    for name in ("v", *_VERBS[verb]):
        if not _FIELDS[name](request[name]):
            raise Refused(f"the field {name} is not what it must be")
    return request


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Refused("a field comes twice")
    return made


def check_descriptors(request: dict[str, Any], descriptors: list[int]) -> None:
    """Only what the verb takes; of files nothing that could be written to or waits."""
    kind = "sweep" if request["do"] == "sweep" else request.get("kind")
    attempt = range(1, MOST_INPUTS + 3)
    counts = {"attempt": attempt, "beside": (1,), "sbatch": (2, 3), "sweep": (1,)}
    if len(descriptors) not in counts.get(str(kind), (0,)):
        raise Refused("the number of descriptors is wrong")
    for place, descriptor in enumerate(descriptors):
        mode, flags = os.fstat(descriptor).st_mode, fcntl.fcntl(descriptor, fcntl.F_GETFL)
        if kind == "beside" or (kind == "sbatch" and place == 0):
            if not stat.S_ISSOCK(mode) or not _is_connected_stream(descriptor):
                raise Refused("the descriptor is not a connected stream socket of this machine")
        elif kind == "sweep":
            _process_of(descriptor)
        elif not stat.S_ISREG(mode) or flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_PATH:
            raise Refused("a descriptor is not a plain file opened to be read")


def _is_connected_stream(descriptor: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as given:
        if given.family != socket.AF_UNIX or given.type != socket.SOCK_STREAM:
            return False
        try:
            given.getpeername()
        except OSError:
            return False
    return True


def _process_of(descriptor: int) -> int:
    """The pid of a living process, by its pidfd."""
    with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
        said = re.search(r"^Pid:\s+(-?[0-9]+)$", file.read(), re.M)
    if said is None:
        raise Refused("the descriptor is not that of a process")
    if int(said[1]) < 1:
        raise Refused("the process is gone", "gone")
    return int(said[1])


# --- files of root ------------------------------------------------------------------------------


def _make_folder(path: str, uid: int, gid: int, mode: int) -> None:
    """Below folders that root alone can write; modes are set, not left to the umask."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    handle = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if (found.st_uid, found.st_gid) == (uid, gid):
            if uid == 0:
                os.chmod(f"/proc/self/fd/{handle}", mode)
            return
        if found.st_uid != 0:
            raise Refused(f"{path} belongs to somebody else")
        # Before it is given away: then the right to change it is gone too.
        os.chmod(f"/proc/self/fd/{handle}", mode)
        os.chown(f"/proc/self/fd/{handle}", uid, gid)
    finally:
        os.close(handle)


def _write(path: str, data: bytes, gid: int, *, lasting: bool = True) -> None:
    """Whole or not at all, for root and the server's group; `lasting`: also after a power cut."""
    aside = f"{path}.{os.getpid()}.new"
    handle = _aside(aside, data, gid)
    if lasting:
        os.fsync(handle)
    os.close(handle)
    os.rename(aside, path)


def _aside(path: str, data: bytes, gid: int) -> int:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fchown(handle, 0, gid)
        os.fchmod(handle, 0o640)
        if os.write(handle, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        os.close(handle)
        os.unlink(path)
        raise OSError(error.errno, error.strerror, path) from error
    return handle


def _create(path: str, data: bytes, gid: int, *, locked: bool = False) -> int | None:
    """The descriptor of a file that was not there before; None when it was."""
    aside = f"{path}.{os.getpid()}.new"
    handle = _aside(aside, data, gid)
    try:
        if locked:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.link(aside, path)
    except FileExistsError:
        os.close(handle)
        return None
    finally:
        os.unlink(aside)
    return handle


def owner_of(site: Site, job: str) -> tuple[int, str]:
    """The uid and the name of whose job it is, as root has written down when it was started first.

    The account may be gone by now, or no longer allowed: what it has left is to be ended all the same."""
    try:
        with open(site.control(job, "owner"), encoding="ascii") as file:
            uid, name = file.read().split(" ", 1)
    except FileNotFoundError:
        raise Refused(f"there is no job {job}", "no-job") from None
    return int(uid), name


def lock_of(site: Site, job: str, number: int, kind: int) -> int | None:
    """The locked claim of an attempt; None when its keeper lives. FileNotFoundError: no claim."""
    handle = os.open(
        site.control(job, str(number), "node0", "claim.json"), os.O_RDWR | os.O_CLOEXEC
    )
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def is_alive(site: Site, job: str, number: int) -> bool:
    """Whether the keeper of an attempt lives."""
    try:
        handle = lock_of(site, job, number, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False
    if handle is not None:
        os.close(handle)
    return handle is None


def attempts_of(site: Site, job: str) -> list[int]:
    """Numbers of the attempts that were asked for."""
    return sorted(int(name) for name in os.listdir(site.control(job)) if name.isdigit())


def identity(pid: int) -> dict[str, Any]:
    """A process as claims name it: a pid alone may come to mean another."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    return {"pid": pid, "start_ticks": ticks, "boot_id": _boot_id()}


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


# --- becoming a user ----------------------------------------------------------------------------


def drop(user: pwd.struct_passwd, *, no_new_privileges: bool = True) -> None:
    """Be the user, for good; ends the process where that cannot be proven."""
    os.initgroups(user.pw_name, user.pw_gid)
    _drop(user.pw_uid, user.pw_gid)
    if no_new_privileges:
        _check(_libc.prctl(38, 1, 0, 0, 0), "no_new_privs")


def drop_to_uid(uid: int) -> None:
    """Be who owns files, with no group's rights: nothing is looked up, the account may be gone."""
    os.setgroups(())
    _drop(uid, NOBODY)
    _check(_libc.prctl(38, 1, 0, 0, 0), "no_new_privs")


def _drop(uid: int, gid: int) -> None:
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    is_user = os.getresuid() == (uid,) * 3 and os.getresgid() == (gid,) * 3
    with contextlib.suppress(PermissionError):
        os.setuid(0)
        is_user = False
    if not is_user or uid == 0 or 0 in os.getgroups():
        os._exit(111)


def _as_user(
    become: Callable[[], None],
    what: str,
    work: Callable[[], None],
    limit_s: float,
    memory: int = MOST_MEMORY,
) -> None:
    """Have a child do something as the user; nothing that the user does to it holds us up."""
    # Taken by `_wait`, which so hears at once that the child ended or was stopped.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            become()
            # Names enough to fill the memory of the machine may lie there.
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            work()
            code = 0
        except Refused as error:
            audit(f"{what}: {error}")
            code = 3
        except OSError as error:
            audit(f"{what}: {error}")
            code = error.errno if error.errno is not None and 3 < error.errno < 111 else 2
        except MemoryError:
            code = errno.ENOMEM
        finally:
            os._exit(code)
    code = _wait(pid, limit_s)
    if code is None:
        raise Refused("the user's file system does not answer, or the user stopped it", "slow")
    if code:
        words = "not a plain file of the job" if code == 3 else os.strerror(code)
        raise Refused(words, "gone" if code in (errno.ENOENT, errno.ENOTDIR) else "files")


def _wait(pid: int, limit_s: float) -> int | None:
    """The exit code of a child; None when it had to be killed: it was stopped, or took too long."""
    give_up = time.monotonic() + limit_s
    while True:
        found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        left_s = give_up - time.monotonic()
        if (found == pid and os.WIFSTOPPED(status)) or left_s <= 0:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        if found == pid:
            return max(os.waitstatus_to_exitcode(status), -1) % 256
        signal.sigtimedwait({signal.SIGCHLD}, left_s)


def _check(code: int, what: str) -> None:
    if code < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


# --- reading as the user ------------------------------------------------------------------------


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_OPENAT2 = 437
# No crossing of mounts, no /proc links, no symbolic links, nothing above the folder.
_RESOLVE = 0x01 | 0x02 | 0x04 | 0x08


def open_below(folder: int, path: str) -> int:
    """What is at a path below an open folder, without opening it: O_PATH. No link is followed."""
    relative = path.strip("/") or "."
    if ".." in relative.split("/"):
        raise Refused("a path leads out of the folder")
    how = _How(os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, 0, _RESOLVE)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    handle = _libc.syscall(_OPENAT2, folder, os.fsencode(relative), ctypes.byref(how), size)
    if handle >= 0:
        return handle
    number = ctypes.get_errno()
    if number not in (errno.ENOSYS, errno.EPERM):
        raise OSError(number, os.strerror(number))
    return _walk(folder, relative)


def _walk(folder: int, relative: str) -> int:
    """The same on kernels without openat2: component by component."""
    handle = os.dup(folder)
    for part in relative.split("/"):
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            below = os.open(part, flags, dir_fd=handle)
        finally:
            os.close(handle)
        if os.fstat(below).st_dev != os.fstat(folder).st_dev or stat.S_ISLNK(
            os.fstat(below).st_mode
        ):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        handle = below
    return handle


def _reopened(handle: int, flags: int) -> int:
    return os.open(f"/proc/self/fd/{handle}", flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def _open_files(site: Site, request: dict[str, Any], connection: socket.socket) -> None:
    folder = os.open(site.job(request["job"], "work"), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    opened: list[int] = []
    for path in request["paths"]:
        seen = open_below(folder, path)
        if not stat.S_ISREG(os.fstat(seen).st_mode):
            raise Refused("not a plain file")
        opened.append(_reopened(seen, os.O_RDONLY))
        os.close(seen)
    socket.send_fds(connection, [b'{"ok": true}'], opened)


def _list_files(site: Site, request: dict[str, Any], connection: socket.socket) -> None:
    folder = os.open(site.job(request["job"], "work"), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    top = open_below(folder, request["paths"][0])
    listed = os.memfd_create("list", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(listed), "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump([row for row, _ in zip(_rows(top), range(MOST_LISTED + 1), strict=False)], file)
    socket.send_fds(connection, [b'{"ok": true}'], [_reopened(listed, os.O_RDONLY)])


def _size(site: Site, request: dict[str, Any], connection: socket.socket) -> None:
    """What a job has on the disk: below a path of its folder, and of all of it with its /tmp."""
    whole = request["paths"] == ["."]
    tops = [(site.job(request["job"], "work"), request["paths"][0])]
    _count([*tops, (site.job(request["job"], "tmp"), ".")] if whole else tops, connection)


def _kept(site: Site, request: dict[str, Any], connection: socket.socket) -> None:
    """What the job's user has on the disk for all of her jobs."""
    _count([(os.path.join(site.state, "users", str(os.getuid())), ".")], connection)


def _count(tops: list[tuple[str, str]], connection: socket.socket) -> None:
    """Blocks on the disk, not lengths: files may have holes, or room beyond their end. Each file once,
    however many names it has. "unseen": a folder that is closed or too deep to be counted."""
    give_up, linked = time.monotonic() + SIZE_LIMIT_S - WORK_LIMIT_S, set[int]()
    taken, unseen = 0, ""
    for folder, path in tops:
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            top = open_below(handle, path)
        except PermissionError:
            unseen = unseen or os.path.join(folder, path)
            continue
        waiting = [""]
        while waiting and time.monotonic() < give_up:
            place = waiting.pop()
            try:
                taken += _count_folder(top, place, waiting, linked, give_up)
            except FileNotFoundError:
                # It was there a moment ago.
                continue
            except OSError:
                unseen = unseen or os.path.join(folder, path, place[:200])
    connection.send(json.dumps({"ok": True, "bytes": taken, "unseen": unseen}).encode())


def _count_folder(
    top: int, place: str, waiting: list[str], linked: set[int], give_up: float
) -> int:
    seen = open_below(top, place)
    try:
        handle = _reopened(seen, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(seen)
    taken = os.fstat(handle).st_blocks
    try:
        with os.scandir(handle) as entries:
            for entry in entries:
                # One folder may have more in it than there is time for.
                if time.monotonic() > give_up:
                    break
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(found.st_mode):
                        waiting.append(f"{place}/{entry.name}" if place else entry.name)
                    elif found.st_nlink == 1 or found.st_ino not in linked:
                        taken += found.st_blocks
                        linked.update((found.st_ino,) if found.st_nlink > 1 else ())
    finally:
        os.close(handle)
    return taken * 512


def _rows(top: int) -> Iterator[list[Any]]:
    """[path, kind, size, mtime in ns, inode, target of a link] of all below; no link is followed.
    A folder that is closed to the user, or too deep to be named, is "other": what is in it is left out."""
    if not stat.S_ISDIR(os.fstat(top).st_mode):
        raise Refused("not a folder")
    waiting = [""]
    while waiting:
        place = waiting.pop()
        try:
            seen = open_below(top, place) if place else os.dup(top)
            handle = _reopened(seen, os.O_RDONLY | os.O_DIRECTORY)
            os.close(seen)
        except OSError:
            if place:
                # It was there a moment ago.
                continue
            raise
        below: list[str] = []
        for name in sorted(os.listdir(handle)):
            row = _row(handle, place, name)
            if row is not None:
                yield row
                if row[1] == "folder":
                    below.append(row[0])
        os.close(handle)
        waiting += reversed(below)


def _row(handle: int, place: str, name: str) -> list[Any] | None:
    try:
        found = os.stat(name, dir_fd=handle, follow_symlinks=False)
        target = os.readlink(name, dir_fd=handle) if stat.S_ISLNK(found.st_mode) else None
    except OSError:
        # Gone again, or something else by now.
        return None
    kinds = {stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(found.st_mode), "other")
    path = f"{place}/{name}" if place else name
    if kind == "folder" and not (
        len(os.fsencode(path)) < MOST_PATH and os.access(name, os.R_OK | os.X_OK, dir_fd=handle)
    ):
        kind = "other"
    return [path, kind, found.st_size, found.st_mtime_ns, found.st_ino, target]


def empty(path: str) -> None:
    """Remove all that is in a folder, whatever its depth and modes; what cannot go is told afterwards.

    What is below a folder is moved up before the folder goes: no path grows, few descriptors are open."""
    # As in all folders below it: the job may have closed it.
    top = _opened_up(None, path)
    troubles: list[OSError] = []
    try:
        waiting = _folders_left(top, troubles)
        mark = os.urandom(4).hex()
        count = itertools.count()
        while waiting:
            name = waiting.pop()
            try:
                handle = _opened_up(top, name)
                try:
                    for inner in _folders_left(handle, troubles):
                        moved = f".{mark}-{next(count)}"
                        _move_up(handle, inner, top, moved)
                        waiting.append(moved)
                finally:
                    os.close(handle)
                os.rmdir(name, dir_fd=top)
            except OSError as error:
                troubles.append(error)
    finally:
        os.close(top)
    for error in troubles:
        if not isinstance(error, FileNotFoundError):
            raise error


def _opened_up(folder: int | None, name: str) -> int:
    """A folder, in an open one, once its owner may do with it what they like; no link is followed."""
    seen = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{seen}", 0o700)
        return os.open(f"/proc/self/fd/{seen}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(seen)


def _move_up(handle: int, name: str, top: int, moved: str) -> None:
    try:
        os.rename(name, moved, src_dir_fd=handle, dst_dir_fd=top)
    except PermissionError:
        # To move a folder one must be able to write to it.
        os.close(_opened_up(handle, name))
        os.rename(name, moved, src_dir_fd=handle, dst_dir_fd=top)


def _folders_left(folder: int, troubles: list[OSError]) -> list[str]:
    """The names of the folders in an open one; all else in it is removed."""
    found: list[str] = []
    # Not all names at once: there may be very many.
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                os.unlink(entry.name, dir_fd=folder)
            except IsADirectoryError:
                found.append(entry.name)
            except OSError as error:
                troubles.append(error)
    return found


# --- cgroups ------------------------------------------------------------------------------------


class Group:
    """The cgroup of an attempt: one folder of v2, or of v1's freezer; v1's other kinds besides."""

    def __init__(self, folders: dict[str, str], name: str) -> None:
        self._folders = {kind: os.path.join(base, name) for kind, base in folders.items()}
        self.main = self._folders.get("v2") or self._folders.get("freezer")

    def make(self, memory: int | None, cpus: int | None, processes: int) -> None:
        """With its shares, as far as the system counts them."""
        for path in self._folders.values():
            os.makedirs(path, exist_ok=True)
        whole = f"{100_000 * (cpus or 1)}"
        limits = (
            ("v2", "memory.max", memory, str(memory)),
            ("v2", "cpu.max", cpus, f"{whole} 100000"),
            ("memory", "memory.limit_in_bytes", memory, str(memory)),
            ("cpu", "cpu.cfs_quota_us", cpus, whole),
            ("v2", "pids.max", processes, str(processes)),
            ("pids", "pids.max", processes, str(processes)),
        )
        for kind, name, wanted, text in limits:
            path = os.path.join(self._folders.get(kind, ""), name)
            if wanted is not None and kind in self._folders and os.path.exists(path):
                _put(path, text)

    def counts_processes(self) -> bool:
        """Whether it bounds them; once it is made."""
        kinds = ("v2", "pids")
        return any(os.path.exists(f"{self._folders.get(kind, '')}/pids.max") for kind in kinds)

    def join(self) -> None:
        """Take in the calling process."""
        for path in self._folders.values():
            _put(os.path.join(path, "cgroup.procs"), str(os.getpid()))

    def pids(self) -> list[int]:
        if self.main is None:
            return []
        try:
            with open(os.path.join(self.main, "cgroup.procs"), encoding="ascii") as file:
                return [int(line) for line in file if int(line) > 0]
        except FileNotFoundError:
            return []

    def kill(self) -> None:
        """All in it, at once; v1 is frozen first, so that nobody forks meanwhile."""
        if "v2" in self._folders and os.path.exists(f"{self.main}/cgroup.kill"):
            _put(f"{self.main}/cgroup.kill", "1")
            return
        is_v1 = "freezer" in self._folders
        if is_v1:
            _put(f"{self.main}/freezer.state", "FROZEN")
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if is_v1:
            _put(f"{self.main}/freezer.state", "THAWED")

    def remove(self) -> bool:
        """Whether all of it is gone afterwards; each part is tried."""
        is_gone = True
        for path in self._folders.values():
            try:
                os.rmdir(path)
            except FileNotFoundError:
                continue
            except OSError:
                is_gone = False
        return is_gone

    def end(self, limit_s: float) -> bool:
        """Kill until nobody is left; whether that is so."""
        give_up, pause_s = time.monotonic() + limit_s, 0.001
        while self.pids() or not self.remove():
            if time.monotonic() > give_up:
                return False
            if self.pids():
                with contextlib.suppress(FileNotFoundError):
                    self.kill()
            _reap()
            time.sleep(pause_s)
            pause_s = min(0.05, pause_s * 2)
        return True


def _put(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def group_of(site: Site, job: str, number: int | str) -> Group:
    """The cgroup of an attempt; without folders where there are none to be had."""
    return Group(_cgroup_folders(site.cgroup), f"{job}-{number}")


def limited_fields(wanted: str) -> set[str]:
    """Which of cpus and memory this machine's cgroups can limit; for the server."""
    found = _cgroup_places(wanted)
    kinds = set(found)
    if "v2" in found:
        top = os.path.dirname(found["v2"])
        while os.path.exists(f"{os.path.dirname(top)}/cgroup.controllers"):
            top = os.path.dirname(top)
        with (
            contextlib.suppress(OSError),
            open(f"{top}/cgroup.controllers", encoding="ascii") as file,
        ):
            kinds.update(file.read().split())
    return {name for name, kind in (("cpus", "cpu"), ("memory", "memory")) if kind in kinds}


def _cgroup_folders(wanted: str) -> dict[str, str]:
    """Where groups can be made, by kind."""
    # At the very top only a folder that was made beforehand, with more rights, can be written.
    return {
        kind: path
        for kind, path in _cgroup_places(wanted).items()
        if any(os.access(place, os.W_OK) for place in (path, os.path.dirname(path)))
    }


def _cgroup_places(wanted: str) -> dict[str, str]:
    """Where groups of jobs would be, by kind: below our own group, which the unit delegates to us."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        own = {kinds: path for _, kinds, path in (line.rstrip("\n").split(":", 2) for line in file)}
    found: dict[str, str] = {}
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            left, _, right = line.partition(" - ")
            kind, _, options = right.split(" ", 2)
            place = left.split(" ")[4]
            if kind == "cgroup2" and wanted == "auto":
                found["v2"] = place + _base(own.get("", "/"))
            elif kind == "cgroup" and wanted != "none":
                kinds_here = options.strip().split(",")
                for name in {"freezer", "memory", "cpu", "pids"}.intersection(kinds_here):
                    path = next((p for kinds, p in own.items() if name in kinds.split(",")), "/")
                    found[name] = place + _base(path)
    if "v2" in found:
        found.pop("freezer", None)
    return found


def make_cgroups(kind: str) -> None:
    """The folders of all jobs."""
    for path in _cgroup_folders(kind).values():
        os.makedirs(path, exist_ok=True)


def _base(own: str) -> str:
    """One folder for all jobs, also of the next life of this program."""
    top = own.partition(f"/{GROUP_OF_JOBS}")[0].rstrip("/").removesuffix("/jumar-root")
    return f"{top}/{GROUP_OF_JOBS}"


def prepare_cgroups(site: Site) -> None:
    """Make the folder of all jobs; in v2 a group that shares has no processes of its own."""
    make_cgroups(site.cgroup)
    folders = _cgroup_folders(site.cgroup)
    if "v2" not in folders:
        return
    top = os.path.dirname(folders["v2"])
    with contextlib.suppress(OSError):
        if os.path.exists(f"{top}/cgroup.kill") or os.path.exists(f"{top}/cgroup.type"):
            # The root of all groups may have both; any other may not.
            os.makedirs(f"{top}/jumar-root", exist_ok=True)
            _put(f"{top}/jumar-root/cgroup.procs", str(os.getpid()))
        for path in (top, folders["v2"]):
            for kind in ("memory", "cpu", "pids"):
                # One by one: in a hybrid system v1 has some of them.
                with contextlib.suppress(OSError):
                    _put(f"{path}/cgroup.subtree_control", f"+{kind}")


# --- fences -------------------------------------------------------------------------------------

_BIND, _REC, _SLAVE = 1 << 12, 1 << 14, 1 << 19
_NOSUID, _NODEV, _NOEXEC = 2, 4, 8


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    code = _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    _check(code, f"mount {target}")


def raise_fences(site: Site, job: str, cards: list[str]) -> None:
    """A mount namespace for this process and its children: no cards of others, /tmp and /dev/shm of
    its own, the server's socket for jobs, and none of ours."""
    _check(_libc.unshare(0x20000), "unshare")
    _mount("none", "/", None, _REC | _SLAVE)
    hidden = {name for name in os.listdir("/dev") if _CARD.match(name)} - set(cards)
    if hidden:
        _hide(site, hidden)
    _mount("jumar", "/dev/shm", "tmpfs", _NOSUID | _NODEV, "mode=1777")
    _mount(site.job(job, "tmp"), "/tmp", None, _BIND)
    if os.path.isdir(site.job_run):
        _mount(site.job_run, site.run, None, _BIND)
    _mount("jumar", site.root_run, "tmpfs", _NOSUID | _NODEV | _NOEXEC, "mode=000")
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    if release is not None and (int(release[1]), int(release[2])) >= (5, 8):
        # Before 5.8 it would change the host's own. Not everywhere allowed in containers.
        with contextlib.suppress(OSError):
            _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC, "hidepid=2")


def _hide(site: Site, hidden: set[str]) -> None:
    """/dev put together anew without some nodes."""
    place = os.path.join(site.root_run, "view")
    os.makedirs(place, exist_ok=True)
    _mount("jumar", place, "tmpfs", _NOSUID, "mode=755")
    with os.scandir("/dev") as entries:
        shown = [entry for entry in entries if entry.name not in hidden]
    for entry in shown:
        new = os.path.join(place, entry.name)
        if entry.name == "ptmx":
            # One that is mounted alone finds no pts beside it.
            os.symlink("pts/ptmx", new)
        elif entry.name == "pts":
            os.mkdir(new)
            _mount(
                "devpts", new, "devpts", _NOSUID | _NOEXEC, f"ptmxmode=666,mode=620{_tty_group()}"
            )
        elif entry.is_symlink():
            os.symlink(os.readlink(entry.path), new)
        elif entry.is_dir(follow_symlinks=False):
            os.mkdir(new)
            _mount(entry.path, new, None, _BIND | _REC)
        else:
            os.close(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
            _mount(entry.path, new, None, _BIND)
    _mount(place, "/dev", None, _BIND | _REC)
    _check(_libc.umount2(os.fsencode(place), 2), "umount")


def _tty_group() -> str:
    try:
        return f",gid={grp.getgrnam('tty').gr_gid}"
    except KeyError:
        return ""


# --- start --------------------------------------------------------------------------------------


def start(site: Site, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    """Have the launcher begin, in a process that outlives this one; an attempt at most once."""
    user = account(site, request["user"], request["uid"])
    for word in site.launcher:
        if word.startswith("/"):
            check_roots_own(word)
    if request["kind"] == "beside":
        return _start_beside(site, request, user, descriptors)
    if request["kind"] == "sbatch":
        return _start_sbatch(site, request, user, descriptors)
    if not _admit(site, request["job"], request["attempt"], user):
        return {"already": True}
    heard, said = os.pipe2(os.O_CLOEXEC)
    if os.fork() == 0:
        _become_keeper(site, request, user, descriptors, said)
    os.close(said)
    answer = os.read(heard, MOST_PATH)
    if answer[:1] == b"!":
        number, _, path = answer[1:].partition(b" ")
        raise OSError(int(number), os.strerror(int(number)), os.fsdecode(path))
    if not answer:
        raise Refused(
            "the keeper could not be started: the log of root's program says why", "keeper"
        )
    return {"already": True} if answer == b"already" else {}


def _admit(site: Site, job: str, number: int, user: pwd.struct_passwd) -> bool:
    """Make the folders of an attempt; whether nobody has claimed it yet."""
    gid = site.server_ids[1]
    _make_folder(site.control(job), 0, gid, 0o750)
    record = _create(site.control(job, "owner"), f"{user.pw_uid} {user.pw_name}".encode(), gid)
    if record is not None:
        os.close(record)
    if owner_of(site, job)[0] != user.pw_uid:
        raise Refused(f"job {job} belongs to somebody else", "owner")
    for earlier in attempts_of(site, job):
        if earlier != number and is_alive(site, job, earlier):
            raise Refused(f"attempt {earlier} of job {job} has not ended", "busy")
    _make_attempt(site, job, number)
    if os.path.exists(site.control(job, str(number), "node0", "claim.json")):
        return False
    # Renamed where a full disk takes no stop.json.
    ready = site.control(job, str(number), "stop.ready.json")
    _write(ready, _stop_text("stopped"), gid, lasting=False)
    _make_folder(site.job(job), 0, 0, 0o711)
    for path in (
        os.path.join(site.state, "users", str(user.pw_uid)),
        site.job(job, "work"),
        site.job(job, "tmp"),
    ):
        _make_folder(path, user.pw_uid, user.pw_gid, 0o700)
    return True


def _make_attempt(site: Site, job: str, number: int) -> None:
    for parts in ((str(number),), (str(number), "node0")):
        _make_folder(site.control(job, *parts), 0, site.server_ids[1], 0o750)


def _become_keeper(
    site: Site, request: dict[str, Any], user: pwd.struct_passwd, descriptors: list[int], said: int
) -> NoReturn:
    keeper: Keeper | None = None
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # Twice: the worker, which is waited for, is not to be its parent.
        if os.fork() == 0:
            os.setsid()
            _close_all_but({0, 1, 2, said, *descriptors})
            # The timer of whoever forked this process is not its own.
            signal.setitimer(signal.ITIMER_REAL, ACCOUNT_LIMIT_S)
            keeper = Keeper(site, request, user)
            signal.setitimer(signal.ITIMER_REAL, 0)
            keeper.run(descriptors, said)
    except (OSError, Refused, KeyError) as error:
        audit(f"keeper of {request['job']}: {error}")
        # Once it has claimed the attempt nobody listens, and the descriptor may be that of something else.
        has_claimed = keeper is not None and keeper.has_told
        if isinstance(error, OSError) and error.errno is not None and not has_claimed:
            with contextlib.suppress(OSError):
                os.write(said, b"!%d %s" % (error.errno, os.fsencode(_path_of(error))))
    finally:
        os._exit(0)


def _close_all_but(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


class Keeper:
    """Waits for one attempt, as root; writes claim and result."""

    def __init__(self, site: Site, request: dict[str, Any], user: pwd.struct_passwd) -> None:
        self._site = site
        self._request = request
        self._user = user
        self._job, self._number = request["job"], request["attempt"]
        self._server = site.server_ids
        self._group = group_of(site, self._job, self._number)
        self._control = site.control(self._job, str(self._number))
        self._words = b""
        self._is_killed = False
        # By a clock that nobody sets: else one that jumps by a day would end all jobs, or let all run on.
        left_s = None if request["kill_at"] is None else request["kill_at"] - time.time()
        self._kill_at = None if left_s is None else time.monotonic() + left_s
        self._stops = 0
        self._ranks_run = False
        """Whether that is still to be written down."""
        self.has_told = False
        """Whether whoever asked knows who has the attempt."""

    def run(self, descriptors: list[int], said: int) -> None:
        """From the claim to the result."""
        _check(_libc.prctl(36, 1, 0, 0, 0), "subreaper")
        _check(_libc.prctl(15, f"{self._job}.{self._number}".encode()[:15], 0, 0, 0), "name")
        wake = self._hear_signals()
        lock = self._claim()
        self.has_told = True
        # Whoever asked may have given up; the attempt goes on all the same.
        with contextlib.suppress(BrokenPipeError):
            os.write(said, b"already" if lock is None else b"claimed")
        os.close(said)
        if lock is None:
            return
        self._hint()
        started_at = time.time()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            # Before the fork: whoever comes beside the job later joins the namespace of this process.
            if self._site.fences:
                raise_fences(self._site, self._job, self._request["cards"])
            shares = self._request["memory"], self._request["cpus"]
            self._group.make(*shares, most_processes(self._site))
        except OSError as error:
            self._words = _not_begun(error)
            self._until_written(70, started_at)
            return
        pid = os.fork()
        if pid == 0:
            os.close(lock)
            ours.close()
            self._become_supervisor(theirs, descriptors)
        theirs.close()
        for descriptor in descriptors:
            os.close(descriptor)
        code = self._watch(pid, ours, wake)
        self._end_all()
        self._until_written(code, started_at)
        self._hint()

    def _claim(self) -> int | None:
        me = identity(os.getpid())
        claim = {**me, "host": socket.gethostname(), "keeper": me, "cgroup": self._group.main}
        path = os.path.join(self._control, "node0", "claim.json")
        return _create(path, json.dumps(claim).encode(), self._server[1], locked=True)

    def _hear_signals(self) -> int:
        wake, end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, lambda _number, _frame: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return wake

    def _become_supervisor(self, channel: socket.socket, descriptors: list[int]) -> NoReturn:
        try:
            words = ["--kept", self._site.job(self._job, "work"), "--attempt", str(self._number)]
            given = [channel.fileno(), *descriptors]
            become_program(self._site, self._user, self._group, given, words)
        except OSError as error:
            channel.send(b"W" + _not_begun(error))
        finally:
            os._exit(70)

    def _watch(self, pid: int, channel: socket.socket, wake: int) -> int:
        """The supervisor's exit code; what it says meanwhile is kept, not read."""
        handle = os.pidfd_open(pid)
        channel.setblocking(False)
        poll = select.poll()
        for descriptor in (handle, channel.fileno(), wake):
            poll.register(descriptor, select.POLLIN)
        # A stop may have been asked for before anybody listened.
        self._pass_stop_on(channel)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(self.left_s() * 1000 + 1)}
            if channel.fileno() in ready and not self._hear(channel):
                poll.unregister(channel)
            if handle in ready:
                # A job can take its supervisor's end and never stop talking: words enough for an honest one.
                for _ in range(MOST_LAST_WORDS):
                    if not self._hear(channel):
                        break
                os.close(handle)
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if self._ranks_run:
                self._note_ranks()
            if wake in ready:
                self._heed(os.read(wake, 4096), pid, channel)
            if self._is_killed or self.left_s() <= 0:
                self._kill(pid)

    def left_s(self) -> float:
        """Until it is to be killed, or looked at again."""
        most_s = 1.0 if self._ranks_run else 3600.0
        if self._kill_at is None or self._is_killed:
            return most_s
        return max(0.0, min(self._kill_at - time.monotonic(), most_s))

    def _heed(self, signals: bytes, pid: int, channel: socket.socket) -> None:
        self._is_killed = self._is_killed or signal.SIGUSR1 in signals
        if signal.SIGTERM in signals:
            self._pass_stop_on(channel)
        if signal.SIGCHLD in signals:
            self._go_on(pid)

    def _go_on(self, pid: int) -> None:
        """A supervisor that somebody has stopped holds its cards for nothing: it is woken, then killed."""
        found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG)
        if found is None or found.si_code != os.CLD_STOPPED:
            return
        self._stops += 1
        if self._stops > MOST_STOPS:
            self._kill(pid)
        else:
            os.kill(pid, signal.SIGCONT)

    def _hear(self, channel: socket.socket) -> bool:
        """One message: R, the ranks run; W, its last words. Whether there may be more."""
        try:
            heard = channel.recv(MOST_SAID + 2)
        except OSError:
            return False
        if heard[:1] == b"R":
            self._ranks_run = True
            self._note_ranks()
        elif heard[:1] == b"W" and len(heard) <= MOST_SAID + 1:
            self._words = heard[1:]
        return bool(heard)

    def _note_ranks(self) -> None:
        """Once there is room for it: a full disk is no reason to let go of a job."""
        ranks = os.path.join(self._control, "node0", "ranks.json")
        try:
            if not os.path.exists(ranks):
                _write(ranks, b"{}", self._server[1])
                self._hint()
        except OSError as error:
            if error.errno not in _PASSING:
                raise
        else:
            self._ranks_run = False

    def _pass_stop_on(self, channel: socket.socket) -> None:
        try:
            with open(os.path.join(self._control, "stop.json"), "rb") as file:
                why = json.loads(file.read())["why"]
        except FileNotFoundError:
            return
        self._is_killed = self._is_killed or why == "lost"
        with contextlib.suppress(OSError):
            channel.send(why.encode())

    def _kill(self, pid: int) -> None:
        self._is_killed = True
        self._words = b""
        if self._group.main is not None:
            self._group.kill()
        os.kill(pid, signal.SIGKILL)

    def _end_all(self) -> None:
        """Cards are free when nobody is left: so long this waits."""
        _end_group(self._group, f"{self._job}.{self._number}")

    def _until_written(self, code: int, started_at: float) -> None:
        seen = {
            "code": code,
            "started_at": started_at,
            "finished_at": time.time(),
            "is_empty": True,
        }
        words = self._words or self._lost_words(code)
        while True:
            try:
                _write(os.path.join(self._control, "result.json"), words, self._server[1])
                _write(
                    os.path.join(self._control, "node0", "result.json"),
                    json.dumps(seen).encode(),
                    self._server[1],
                )
                return
            except OSError as error:
                if error.errno not in _PASSING:
                    raise
                # A full disk: the attempt has ended when that can be written down.
                time.sleep(1.0)

    def _lost_words(self, code: int) -> bytes:
        if code == -signal.SIGALRM and not self._is_killed:
            error = f"the groups of {self._user.pw_name} could not be looked up in {ACCOUNT_LIMIT_S:g} s"
            return _ending("lost", "start-fails", f"it could not be started: {error}", error=error)
        return _ending("lost", *_LOST["killed" if self._is_killed else "supervisor"])

    def _hint(self) -> None:
        send_hint(self._site, self._server[0], self._job)


_LOST = {
    "killed": ("killed-by-server", "it did not end when asked, and was killed"),
    "supervisor": ("supervisor-killed", "its supervisor was killed"),
    "keeper": ("launcher-killed", "its supervisor and keeper were killed"),
    "restarted": ("machine-restarted", "the machine was restarted"),
    "never": ("never-started", "no supervisor could be started"),
}


def _ending(state: str, cause: str, reason: str, **values: str) -> bytes:
    return json.dumps({"state": state, "cause": cause, "reason": reason, "values": values}).encode()


def _path_of(error: OSError) -> str:
    return error.filename if isinstance(error.filename, str) else ""


def _not_begun(error: OSError) -> bytes:
    """The end of an attempt that could not begin; causes as the launcher has them."""
    folder, words = os.path.dirname(_path_of(error)), error.strerror or str(error)
    if folder and error.errno in _FULL:
        return _ending("failed", "folder-full", f"no room left in {folder}", folder=folder)
    if folder and error.errno in _CLOSED:
        reason = f"{folder} cannot be written: {words}"
        return _ending("failed", "folder-closed", reason, folder=folder, error=words)
    return _ending("failed", "start-refused", f"it could not be started: {error}", error=str(error))


def _end_group(group: Group, name: str) -> None:
    """Until nobody is left."""
    while group.main is None and _kill_descendants():
        time.sleep(0.02)
    while not group.end(60.0):
        audit(f"{name}: processes that cannot be killed")


def _kill_descendants() -> bool:
    """Without cgroups: all below this subreaper; whether there were any."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    parents.setdefault(int(fields[1]), []).append(int(name))
    found = list(parents.get(os.getpid(), ()))
    for pid in found:
        found.extend(parents.get(pid, ()))
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _reap()
    return bool(found)


def send_hint(site: Site, server_uid: int, job: str) -> None:
    """Tell the server to look at a job; as its account, so that no right of root is needed."""
    os.seteuid(server_uid)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            path = os.path.join(site.state, "server", "notify.sock")
            sender.sendto(json.dumps({"job_id": job}).encode(), path)
    except OSError:
        # Only a hint: the server also looks by itself.
        pass
    finally:
        os.seteuid(0)
        # Changed ids made this process one that nobody may look at; who comes beside the job has to.
        _check(_libc.prctl(4, 1, 0, 0, 0), "dumpable")


_INFINITY = resource.RLIM_INFINITY
_LIMITS = {
    resource.RLIMIT_NOFILE: (65536, 1 << 20),
    resource.RLIMIT_MEMLOCK: (_INFINITY, _INFINITY),
    resource.RLIMIT_CORE: (0, _INFINITY),
    resource.RLIMIT_STACK: (8 << 20, _INFINITY),
    resource.RLIMIT_NPROC: (_INFINITY, _INFINITY),
    resource.RLIMIT_FSIZE: (_INFINITY, _INFINITY),
    resource.RLIMIT_CPU: (_INFINITY, _INFINITY),
}


def most_processes(site: Site) -> int:
    """How many processes and threads a job may have."""
    if site.processes:
        return site.processes
    found: list[int] = []
    for name in ("pid_max", "threads-max"):
        with open(f"/proc/sys/kernel/{name}", encoding="ascii") as file:
            found.append(int(file.read()))
    return max(1024, min(found) // 4)


def become_program(
    site: Site, user: pwd.struct_passwd, group: Group, given: list[int], words: list[str]
) -> NoReturn:
    """Execute the launcher as the user, in the group; descriptors, limits and variables are made anew."""
    group.join()
    os.setsid()
    for path, text in (("loginuid", str(user.pw_uid)), ("oom_score_adj", "0")):
        # Not everywhere there; containers may forbid it.
        with contextlib.suppress(OSError):
            _put(f"/proc/self/{path}", text)
    for limit, values in _LIMITS.items():
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, values)
    if not group.counts_processes():
        # Counts all of the user's, but is to be had everywhere.
        most = most_processes(site)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    os.umask(site.umask)
    # A session keyring of its own: none of the server's or of root's.
    _libc.syscall({"x86_64": 250, "aarch64": 219}.get(platform.machine(), 219), 1, None)
    _place(given)
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.chdir("/")
    # It kills this process, and would live through the exec.
    signal.setitimer(signal.ITIMER_REAL, ACCOUNT_LIMIT_S)
    drop(user, no_new_privileges=not site.setuid_programs)
    signal.setitimer(signal.ITIMER_REAL, 0)
    log = os.path.join(words[1], "launcher.log")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    handle = os.open(log, flags, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        **site.variables,
        "HOME": user.pw_dir,
        "USER": user.pw_name,
        "LOGNAME": user.pw_name,
        "SHELL": user.pw_shell,
    }
    argv = [*site.launcher, *words, "--descriptors", str(len(given))]
    os.execve(argv[0], argv, environment)


def _place(given: list[int]) -> None:
    """The given descriptors from 3 on, nothing else but /dev/null."""
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 100) for descriptor in given]
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    for number, descriptor in enumerate(high, 3):
        os.dup2(descriptor, number)
    os.closerange(3 + len(given), resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _start_beside(
    site: Site, request: dict[str, Any], user: pwd.struct_passwd, descriptors: list[int]
) -> dict[str, Any]:
    """Run the launcher next to a living attempt: in its namespace and cgroup, as its user."""
    job, number = request["job"], request["attempt"]
    if owner_of(site, job)[0] != user.pw_uid:
        raise Refused(f"job {job} belongs to somebody else", "owner")
    group = group_of(site, job, number)
    if not is_alive(site, job, number) or not group.pids():
        raise Refused(
            f"attempt {number} of job {job} does not run, or there are no cgroups", "over"
        )
    with open(site.control(job, str(number), "node0", "claim.json"), encoding="ascii") as file:
        keeper: int = json.load(file)["keeper"]["pid"]
    if os.fork() == 0:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            namespace = os.open(f"/proc/{keeper}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            if not is_alive(site, job, number):
                # Its pid may have become another's.
                os._exit(70)
            _check(_libc.setns(namespace, 0x20000), "setns")
            words = ["--beside", site.job(job, "work"), "--attempt", str(number)]
            become_program(site, user, group, descriptors, words)
        finally:
            os._exit(70)
    return {}


def _start_sbatch(
    site: Site, request: dict[str, Any], user: pwd.struct_passwd, descriptors: list[int]
) -> dict[str, Any]:
    """Have the launcher speak to Slurm as the user, and be gone soon; whatever it starts is ended."""
    if not site.slurm:
        raise Refused("site.toml does not allow jobs of Slurm: slurm = true", "slurm")
    job, number = request["job"], request["attempt"]
    if not _admit(site, job, number, user):
        raise Refused(f"attempt {number} of job {job} runs on this machine", "busy")
    if os.fork() == 0:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            os.setsid()
            _close_all_but({0, 1, 2, *descriptors})
            _check(_libc.prctl(36, 1, 0, 0, 0), "subreaper")
            # One of its own each: a stop may be asked for while a submit waits.
            group = group_of(site, job, f"{number}-{os.getpid()}")
            group.make(None, None, most_processes(site))
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            pid = os.fork()
            if pid == 0:
                words = ["--slurm-as", site.job(job, "work"), "--attempt", str(number)]
                become_program(site, user, group, descriptors, words)
            for descriptor in descriptors:
                os.close(descriptor)
            _wait(pid, SLURM_LIMIT_S)
            _end_group(group, f"{job}.{number}")
        except OSError as error:
            audit(f"Slurm's job of {job}: {error}")
        finally:
            os._exit(70)
    return {}


# --- the other verbs ----------------------------------------------------------------------------


def send_signal(site: Site, request: dict[str, Any]) -> dict[str, Any]:
    """Write why, and wake the keeper; one that is gone needs none."""
    job, number = request["job"], request["attempt"]
    owner_of(site, job)
    folder = site.control(job, str(number))
    if not os.path.isdir(folder):
        raise Refused(f"job {job} has no attempt {number}", "no-job")
    number_sent = signal.SIGTERM
    if request["why"] == "lost" or not os.path.exists(f"{folder}/stop.json"):
        is_written = _write_stop(folder, request["why"], site.server_ids[1])
        if request["why"] == "lost" and not is_written:
            # What needs no room on a disk.
            number_sent = signal.SIGUSR1
    if not is_alive(site, job, number):
        return {"alive": False}
    with open(f"{folder}/node0/claim.json", encoding="ascii") as file:
        keeper = json.load(file)["keeper"]
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        handle = os.pidfd_open(keeper["pid"])
        if identity(keeper["pid"]) == keeper:
            signal.pidfd_send_signal(handle, number_sent)
    return {"alive": True}


def _stop_text(why: str) -> bytes:
    return json.dumps({"why": why}).encode()


def _write_stop(folder: str, why: str, gid: int) -> bool:
    """False where there is no room: then the one that was written beforehand takes its place."""
    try:
        _write(f"{folder}/stop.json", _stop_text(why), gid)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{folder}/stop.ready.json", f"{folder}/stop.json")
        return False
    return True


def end_lost(site: Site, request: dict[str, Any]) -> dict[str, Any]:
    """End what the dead keeper of an attempt has left, and write its result."""
    job, number = request["job"], request["attempt"]
    owner_of(site, job)
    gid = site.server_ids[1]
    _make_attempt(site, job, number)
    folder = site.control(job, str(number))
    me = identity(os.getpid())
    nobody = json.dumps({**me, "host": socket.gethostname(), "keeper": me, "cgroup": None})
    why = "never"
    # Claimed for nobody, so that a late keeper leaves it alone.
    lock = _create(f"{folder}/node0/claim.json", nobody.encode(), gid, locked=True)
    if lock is None:
        lock = lock_of(site, job, number, fcntl.LOCK_EX)
        if lock is None:
            raise Refused(f"attempt {number} of job {job} runs", "alive")
        with open(f"{folder}/node0/claim.json", encoding="ascii") as file:
            why = "keeper" if json.load(file)["boot_id"] == _boot_id() else "restarted"
    if os.path.exists(f"{folder}/node0/result.json"):
        return {}
    group = group_of(site, job, number)
    if group.main is not None and not group.end(WORK_LIMIT_S - 2):
        raise Refused("processes of the attempt are still there", "busy")
    now = time.time()
    begun = None if why == "never" else os.stat(f"{folder}/node0/claim.json").st_mtime
    seen = {"code": None, "started_at": begun, "finished_at": now, "is_empty": True}
    _write(f"{folder}/result.json", _ending("lost", *_LOST[why]), gid)
    _write(f"{folder}/node0/result.json", json.dumps(seen).encode(), gid)
    return {}


def files(site: Site, request: dict[str, Any], connection: socket.socket) -> None:
    """Answered by a child that has become the user."""
    work = {"open": _open_files, "list": _list_files, "size": _size, "kept": _kept}[request["op"]]
    uid, name = owner_of(site, request["job"])
    user, what = account(site, name, uid), f"files of {request['job']}"
    limit_s = SIZE_LIMIT_S if request["op"] in ("size", "kept") else FILES_LIMIT_S
    _as_user(lambda: drop(user), what, lambda: work(site, request, connection), limit_s)


def remove(site: Site, request: dict[str, Any]) -> dict[str, Any]:
    """Emptied as the user, removed as root; whoever that was may be gone from the machine."""
    job = request["job"]
    uid, _ = owner_of(site, job)
    check_person(site, uid)
    if any(is_alive(site, job, number) for number in attempts_of(site, job)):
        raise Refused(f"job {job} has not ended", "busy")
    for name in ("work", "tmp"):
        path = site.job(job, name)
        if os.path.isdir(path):
            what, limit_s = f"removal of {job}", REMOVE_LIMIT_S - 60
            # One at a time for each user, and it has to come to an end.
            memory = 4 * MOST_MEMORY
            _as_user(lambda: drop_to_uid(uid), what, lambda path=path: empty(path), limit_s, memory)
            os.rmdir(path)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(site.job(job))
    # Root's own files, in a folder that root alone can write.
    shutil.rmtree(site.control(job))
    return {}


def sweep(site: Site, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    """End a process of a person that holds a card without a job; the server has warned of it.

    Should its pid become another's meanwhile, then that one is looked at, and nothing is sent: the
    descriptor stays that of the process that is gone."""
    if not site.sweep:
        raise Refused("site.toml does not allow a sweep: sweep = true", "sweep")
    pid = _process_of(descriptors[0])
    uid = os.stat(f"/proc/{pid}").st_uid
    check_person(site, uid)
    if _is_of_job(pid):
        raise Refused(f"process {pid} belongs to a job", "job")
    number = signal.SIGKILL if request["hard"] else signal.SIGTERM
    user, what = pwd.getpwuid(uid), f"sweep of {pid}"
    _as_user(
        lambda: drop(user), what, lambda: _end_holder(pid, descriptors[0], number), WORK_LIMIT_S
    )
    audit(f"{what} of uid {uid}: {number.name}")
    return {}


def _is_of_job(pid: int) -> bool:
    """By its cgroup, or by a keeper above it: those are root's, and named after their attempt."""
    with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
        if f"/{GROUP_OF_JOBS}/" in file.read():
            return True
    while pid > 1:
        with open(f"/proc/{pid}/stat", "rb") as file:
            name, _, rest = file.read().partition(b"(")[2].rpartition(b")")
        is_roots = os.stat(f"/proc/{pid}").st_uid == 0
        if is_roots and KEEPER.match(name.decode("utf-8", "replace")):
            return True
        pid = int(rest.split()[1])
    return False


def _end_holder(pid: int, handle: int, number: signal.Signals) -> None:
    """As the person: end their process, if it holds a card."""
    cards = {os.stat(f"/dev/{name}").st_rdev for name in os.listdir("/dev") if _CARD.match(name)}
    for held in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(f"/proc/{pid}/fd/{held}")
            if stat.S_ISCHR(found.st_mode) and found.st_rdev in cards:
                signal.pidfd_send_signal(handle, number)
                return
    raise OSError(errno.ENODEV, "it holds no card")


# --- serving ------------------------------------------------------------------------------------


def audit(words: str) -> None:
    """One line of the log."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    # A name that a user chose may hold line ends.
    shown = "".join(letter if letter.isprintable() else "?" for letter in words)
    with contextlib.suppress(OSError):
        os.write(2, f"{stamp} {shown}\n".encode("utf-8", "replace"))


def answer(site_path: str, connection: socket.socket) -> None:
    """Carry out the one request of a connection; this process ends afterwards."""
    told = "?"
    try:
        connection.settimeout(READ_LIMIT_S)
        data, descriptors, flags, _ = socket.recv_fds(connection, MOST_BYTES + 1, MOST_INPUTS + 4)
        if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
            raise Refused("the request is too long, or carries too many descriptors")
        request = parse(data)
        told = " ".join(
            f"{name}={request[name]}"
            for name in ("do", "kind", "job", "attempt", "user", "op")
            if name in request
        )
        check_descriptors(request, descriptors)
        site = read_site(site_path)
        longer = {"remove": REMOVE_LIMIT_S, "files": FILES_LIMIT_S + WORK_LIMIT_S}
        longer |= dict.fromkeys(("size", "kept"), SIZE_LIMIT_S + WORK_LIMIT_S)
        limit_s = longer.get(request.get("op", ""), longer.get(request["do"], 2 * WORK_LIMIT_S))
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        if request["do"] == "files":
            files(site, request, connection)
        else:
            verbs = {"signal": send_signal, "lost": end_lost, "remove": remove}
            verb = verbs.get(request["do"])
            given = sweep if request["do"] == "sweep" else start
            made = given(site, request, descriptors) if verb is None else verb(site, request)
            connection.send(json.dumps({"ok": True, **made}).encode())
        audit(f"{told}: done")
    except (Refused, OSError, ValueError, KeyError) as error:
        audit(f"{told}: refused: {error}")
        with contextlib.suppress(OSError):
            connection.send(json.dumps(_refusal(error)).encode())


def _refusal(error: Exception) -> dict[str, str]:
    made = {"no": str(error)[:2000], "code": "failed"}
    if isinstance(error, Refused):
        made["code"] = error.code
    elif isinstance(error, OSError) and error.errno in (*_FULL, *_CLOSED):
        made["code"] = "full" if error.errno in _FULL else "closed"
        made["path"] = _path_of(error)
    return made


def _peer(connection: socket.socket) -> int:
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("3i", found)[1]


def listen(site: Site) -> socket.socket:
    """The socket that the server alone may use."""
    gid = site.server_ids[1]
    os.makedirs(site.root_run, exist_ok=True)
    _make_folder(site.root_run, 0, gid, 0o710)
    check_roots_own(site.root_run)
    path = os.path.join(site.root_run, "root.sock")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    os.chmod(path, 0o660)
    os.chown(path, 0, gid)
    listener.listen(128)
    return listener


def prepare(site: Site) -> None:
    """The folders of the site; refuses a launcher, or a place, that others could change."""
    for path in (site.state, *(word for word in site.launcher if word.startswith("/"))):
        check_roots_own(path)
    gid = site.server_ids[1]
    for name, group, mode in (("control", gid, 0o750), ("jobs", 0, 0o711), ("users", 0, 0o711)):
        _make_folder(os.path.join(site.state, name), 0, group, mode)


def serve(site_path: str) -> NoReturn:
    """Until killed. Keepers go on without."""
    site = read_site(site_path)
    prepare(site)
    prepare_cgroups(site)
    listener = listen(site)
    server_uid = site.server_ids[0]
    _check(_libc.prctl(36, 1, 0, 0, 0), "subreaper")
    audit("listening")
    workers: set[int] = set()
    while True:
        # Keepers, which come to us when their worker has ended, are reaped here too.
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                workers.discard(pid)
        if len(workers) >= MOST_WORKERS:
            time.sleep(0.05)
            continue
        if not select.select([listener], [], [], 1.0)[0]:
            continue
        connection, _ = listener.accept()
        with connection:
            if _peer(connection) != server_uid:
                audit(f"refused: a connection of uid {_peer(connection)}")
                continue
            pid = os.fork()
            if pid == 0:
                listener.close()
                try:
                    answer(site_path, connection)
                finally:
                    os._exit(0)
            workers.add(pid)


def main() -> int:
    """The program; its one argument is the site's file."""
    os.umask(0o077)
    if os.geteuid() != 0 or len(sys.argv) != 2:
        audit("usage, as root: program.py SITE_TOML")
        return 2
    try:
        serve(sys.argv[1])
    except (Refused, OSError, KeyError) as error:
        audit(f"error: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
