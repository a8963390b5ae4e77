"""All processes of one attempt, and how to end every one of them.

They are those in the attempt's cgroup and those below the calling process, which must be a
subreaper: then a daemon that double-forked into a session of its own is still found. One cgroup v2 per
attempt, so that one write ends all. Where none can be made (not mounted, read-only, another user's)
there is none. No controller is switched on."""

import errno
import os
import signal
import time
from typing import List, Optional, Set

from jumar.launch.processes import process

MOUNTINFO = "/proc/self/mountinfo"
OWN_CGROUPS = "/proc/self/cgroup"


class Cgroup:
    """One folder of the cgroup tree; `path` is kept in the claim to find it again."""

    def __init__(self, path: str) -> None:
        self.path = path

    def take_in(self, pid: int) -> bool:
        """Move a process into the group; what it starts from now on is in it too.

        The kernel may need 20 ms for it, so this is done while the program starts up, not
        before: whatever it manages to start meanwhile is still found through the subreaper."""
        try:
            with open(os.path.join(self.path, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(pid))
        except OSError:
            return False
        return True

    def pids(self) -> List[int]:
        """Who is in it, as far as this process can see them; nobody when it is gone."""
        try:
            with open(os.path.join(self.path, "cgroup.procs"), encoding="ascii") as file:
                pids = [int(line) for line in file]
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENODEV):
                return []
            raise
        # 0 stands for a process of another namespace; as a target of signals it means "my own".
        return [pid for pid in pids if pid > 0]

    def kill(self) -> bool:
        """SIGKILL to all in it at once; False when this kernel (before 5.14) cannot."""
        try:
            with open(os.path.join(self.path, "cgroup.kill"), "w", encoding="ascii") as file:
                file.write("1")
        except OSError:
            return False
        return True

    def remove(self) -> bool:
        """Whether it is gone afterwards; it stays while a process is in it."""
        try:
            os.rmdir(self.path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def oom_kills(self) -> Optional[int]:
        """How many of it the kernel has killed for memory; None when nobody counts."""
        try:
            with open(os.path.join(self.path, "memory.events"), encoding="ascii") as file:
                return _count(file.read(), "oom_kill")
        except OSError:
            return None


def cgroup_name(job_id: str, attempt: int, node: int = 0) -> str:
    """What the group of an attempt on one node is called; two nodes may be on one machine."""
    return f"jumar-{job_id}-{attempt}" + (f"-node{node}" if node else "")


def cgroup_place(name: str) -> Optional[str]:
    """Where a group of this name could be made; nothing is made yet."""
    mount = _cgroup2_mount()
    own = _own_path()
    if mount is None or own is None:
        return None
    parent = os.path.join(mount, own.lstrip("/"))
    return os.path.join(parent, name) if os.access(parent, os.W_OK) else None


def claimed_cgroup(path: Optional[str], name: str) -> Optional[Cgroup]:
    """The group that a claim names, if it is where groups are and has the name it must have: a job
    may write any path into a claim."""
    mount = _cgroup2_mount()
    if path is None or mount is None or os.path.basename(path) != name:
        return None
    below = os.path.normpath(path) == path and path.startswith(mount.rstrip("/") + "/")
    return Cgroup(path) if below else None


def make_cgroup(path: Optional[str]) -> Optional[Cgroup]:
    """The group at `path`, made now; None when it cannot be had."""
    if path is None:
        return None
    try:
        os.mkdir(path)
    except FileExistsError:
        return Cgroup(path)
    except OSError:
        return None
    return Cgroup(path)


def machine_oom_kills() -> int:
    """How many processes the kernel of this machine has killed for memory since it started."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return _count(file.read(), "oom_kill") or 0
    except OSError:
        return 0


def _cgroup2_mount() -> Optional[str]:
    try:
        with open(MOUNTINFO, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                left, _, right = line.partition(" - ")
                if right.split(" ", 1)[0] == "cgroup2":
                    return left.split(" ")[4].encode().decode("unicode_escape")
    except OSError:
        return None
    return None


def _own_path() -> Optional[str]:
    try:
        with open(OWN_CGROUPS, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                if line.startswith("0::"):
                    return line[3:].rstrip("\n")
    except OSError:
        return None
    return None


def _count(text: str, key: str) -> Optional[int]:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return None


class OomWatch:
    """Whether the kernel has killed for memory since this was made."""

    def __init__(self, group: Optional[Cgroup]) -> None:
        self._group = group
        self._before = self._count()

    def grew(self) -> bool:
        """True once a kill was counted."""
        return self._count() > self._before

    def _count(self) -> int:
        counted = self._group.oom_kills() if self._group else None
        return machine_oom_kills() if counted is None else counted


SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})


class Tree:
    """What the calling process has below it."""

    def __init__(self, group: Optional[Cgroup]) -> None:
        self.group = group

    def pids(self) -> List[int]:
        """Everything that still runs."""
        found: Set[int] = set(self.group.pids() if self.group else ())
        found.update(stat.pid for stat in process.descendants(os.getpid()) if not stat.is_dead)
        return sorted(found)

    def has_any(self) -> bool:
        """Cheap when nothing is left, which is the usual case."""
        reap()
        if self.group and self.group.pids():
            return True
        return has_children() and bool(self.pids())

    def signal_all(self, number: int) -> None:
        """One signal to each process."""
        for pid in self.pids():
            process.send(pid, number)

    def kill(self, limit_s: float = 5.0) -> bool:
        """SIGKILL until nothing is left; False when something outlives `limit_s`."""
        give_up = time.monotonic() + limit_s
        pause_s = 0.001
        while self.has_any():
            if time.monotonic() > give_up:
                return False
            if self.group:
                self.group.kill()
            self.signal_all(signal.SIGKILL)
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.05)
        return True

    def dissolve(self) -> bool:
        """Kill everything and remove the cgroup; whether nothing is left."""
        gone = self.kill()
        if self.group is None:
            return gone
        # A killed process leaves its group a moment after it has been reaped.
        for _ in range(100):
            if self.group.remove():
                return gone
            time.sleep(0.005)
        return False


def reap() -> None:
    """Collect children that ended and that nobody waits for by pid."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def has_children() -> bool:
    """Whether the calling process has any child, running or not."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def polite_targets(pid: int) -> List[int]:
    """Who shall hear a request to end that is meant for the program `pid` was started for.

    A shell does not pass signals on to what it runs, so that is addressed too. Other programs
    get it alone: workers of a data loader that end early would spoil the last checkpoint."""
    stat = process.read_stat(pid)
    if stat is None:
        return []
    targets = [pid]
    if stat.name in SHELLS:
        for child in process.descendants(pid):
            if child.parent == pid:
                targets.extend(polite_targets(child.pid))
    return targets
