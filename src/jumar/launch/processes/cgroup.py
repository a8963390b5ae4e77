"""One cgroup v2 an attempt, so that one write ends all its processes.

Where no cgroup v2 can be made (not mounted, read-only, another user's) there is none, and the
caller finds processes through the subreaper instead. No controller is switched on."""

import errno
import os
from typing import List, Optional

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


def name_of(job_id: str, attempt: int, node: int = 0) -> str:
    """What the group of an attempt on one node is called; two nodes may be on one machine."""
    return f"jumar-{job_id}-{attempt}" + (f"-node{node}" if node else "")


def place(name: str) -> Optional[str]:
    """Where a group of this name could be made; nothing is made yet."""
    mount = _cgroup2_mount()
    own = _own_path()
    if mount is None or own is None:
        return None
    parent = os.path.join(mount, own.lstrip("/"))
    return os.path.join(parent, name) if os.access(parent, os.W_OK) else None


def claimed(path: Optional[str], name: str) -> Optional[Cgroup]:
    """The group that a claim names, if it is where groups are and has the name it must have: a job
    may write any path into a claim."""
    mount = _cgroup2_mount()
    if path is None or mount is None or os.path.basename(path) != name:
        return None
    below = os.path.normpath(path) == path and path.startswith(mount.rstrip("/") + "/")
    return Cgroup(path) if below else None


def make(path: Optional[str]) -> Optional[Cgroup]:
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
