"""All processes of one attempt, and how to end every one of them.

They are those in the attempt's cgroup and those below the calling process, which must be a
subreaper: then a daemon that double-forked into a session of its own is still found. One cgroup per
attempt: of version 2, so that one write ends all, or of any hierarchy of version 1. Where none can be
made (not mounted, read-only, another user's) there is none. No controller is switched on; where memory is
a hierarchy of version 1, there is a second group that counts kills for want of it."""

import errno
import os
import signal
import time
from typing import FrozenSet, Iterator, List, NamedTuple, Optional, Set

from jumar.launch.processes import process

MOUNTINFO = "/proc/self/mountinfo"
OWN_CGROUPS = "/proc/self/cgroup"
_KERNEL_LINE_LIMIT_S = 1.0
_KERNEL_LOG = "/dev/kmsg"
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
_UNIFIED = "cgroup2"
_PREFERRED = (_UNIFIED, "pids", "freezer", "name=systemd")


class Cgroup:
    """One folder of the cgroup tree; `path` is kept in the claim to find it again."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._memory = _memory_twin(path)

    def take_in(self, pid: int) -> bool:
        """Move a process into the group; what it starts from now on is in it too.

        The kernel may need 20 ms for it, so this is done while the program starts up, not
        before: whatever it manages to start meanwhile is still found through the subreaper."""
        if self._memory is not None:
            make_cgroup(self._memory)
            _write(os.path.join(self._memory, "cgroup.procs"), str(pid))
        return _write(os.path.join(self.path, "cgroup.procs"), str(pid))

    def pids(self) -> List[int]:
        """Who is in it, or in a group below it, as far as this process can see them; nobody when it is
        gone."""
        pids: List[int] = []
        for folder in _with_below(self.path):
            try:
                with open(os.path.join(folder, "cgroup.procs"), encoding="utf-8") as file:
                    pids.extend(int(line) for line in file)
            except OSError as error:
                _unless_gone(error)
        # 0 stands for a process of another namespace; as a target of signals it means "my own".
        return [pid for pid in pids if pid > 0]

    def kill(self) -> bool:
        """SIGKILL to all in it at once; False when this kernel (before 5.14) cannot."""
        return _write(os.path.join(self.path, "cgroup.kill"), "1")

    def remove(self) -> bool:
        """Whether it is gone afterwards; it stays while a process is in it. A launcher among the ranks may
        have made a group of its own below it."""
        paths = [path for path in (self._memory, self.path) if path is not None]
        are_gone = [_remove(folder) for path in paths for folder in _with_below(path)]
        return all(are_gone)

    def oom_kills(self) -> Optional[int]:
        """How many of it the kernel has killed for memory; None when nobody counts."""
        counters = [os.path.join(self.path, "memory.events")]
        if self._memory is not None:
            counters.insert(0, os.path.join(self._memory, "memory.oom_control"))
        for counter in counters:
            try:
                with open(counter, encoding="utf-8") as file:
                    return _count(file.read(), "oom_kill")
            except OSError:
                continue
        return None


def _with_below(path: str) -> List[str]:
    """A group and all groups below it, the innermost first; none when it is gone."""
    return [folder for folder, _, _ in os.walk(path, topdown=False, onerror=_unless_gone)]


def _unless_gone(error: OSError) -> None:
    if error.errno not in (errno.ENOENT, errno.ENODEV):
        raise error


def _write(path: str, words: str) -> bool:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(words)
    except OSError:
        return False
    return True


def _remove(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def cgroup_name(job_id: str, attempt: int, node: int = 0) -> str:
    """What the group of an attempt on one node is called; two nodes may be on one machine."""
    return f"jumar-{job_id}-{attempt}" + (f"-node{node}" if node else "")


def cgroup_place(name: str) -> Optional[str]:
    """Where a group of this name could be made; nothing is made yet."""
    hierarchies = list(_hierarchies())
    for kind in _PREFERRED:
        for one in hierarchies:
            if kind in one.kinds and os.access(one.own, os.W_OK):
                return os.path.join(one.own, name)
    return None


def claimed_cgroup(path: Optional[str], name: str) -> Optional[Cgroup]:
    """The group that a claim names, if it is where groups are and has the name it must have: a job
    may write any path into a claim."""
    if path is None or os.path.basename(path) != name or os.path.normpath(path) != path:
        return None
    mounts = [one.mount.rstrip("/") + "/" for one in _hierarchies()]
    return Cgroup(path) if any(path.startswith(mount) for mount in mounts) else None


def _memory_twin(path: str) -> Optional[str]:
    """Beside a group at `path`, the one of the same name that counts kills for want of memory."""
    for one in _hierarchies():
        if "memory" in one.kinds and os.access(one.own, os.W_OK):
            return os.path.join(one.own, os.path.basename(path))
    return None


class _Hierarchy(NamedTuple):
    kinds: FrozenSet[str]
    """`cgroup2`, or the controllers of version 1."""
    mount: str
    own: str
    """The folder of the group that this process is in."""


def _hierarchies() -> Iterator[_Hierarchy]:
    own = _own_paths()
    for line in _lines(MOUNTINFO):
        left, _, right = line.partition(" - ")
        kind, *_, options = right.rstrip("\n").split(" ") or [""]
        root, mount = map(_unescaped, left.split(" ")[3:5])
        for names, path in own:
            is_unified = kind == _UNIFIED and not names
            if is_unified or (kind == "cgroup" and names and names <= set(options.split(","))):
                below = path[len(root) :] if path.startswith(root) else path
                place = os.path.join(mount, below.strip("/")).rstrip("/")
                yield _Hierarchy(frozenset({_UNIFIED}) if is_unified else names, mount, place)


def _unescaped(word: str) -> str:
    """As the kernel writes a path with a space in it: `\\040`."""
    return word.encode().decode("unicode_escape") if "\\" in word else word


def _own_paths() -> "List[tuple[FrozenSet[str], str]]":
    """Of each hierarchy: its controllers, and the group that this process is in."""
    parts = [line.rstrip("\n").split(":", 2) for line in _lines(OWN_CGROUPS)]
    return [(frozenset(names.split(",") if names else ()), path) for _, names, path in parts]


def _lines(path: str) -> List[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readlines()
    except OSError:
        return []


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
        # As everywhere here no other codec than the one that Python has loaded: that takes a while.
        with open("/proc/vmstat", encoding="utf-8") as file:
            return _count(file.read(), "oom_kill") or 0
    except OSError:
        return 0


def _count(text: str, key: str) -> Optional[int]:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return None


class OomWatch:
    """Whether the kernel has killed a process of a group for want of memory since this was made."""

    def __init__(self, group: Optional[Cgroup]) -> None:
        self._group = group
        self._before = group.oom_kills() if group else None
        self._machine_before = machine_oom_kills()

    def killed(self, pid: int) -> bool:
        """Whether that was the end of a process that was killed. Of others' kills nothing is taken for
        ours, unless nobody but the machine as a whole counts them."""
        counted = self._group.oom_kills() if self._group else None
        if counted is not None and counted > (self._before or 0):
            return True
        if machine_oom_kills() == self._machine_before:
            return False
        # A script may have put itself into a group of its own, which ours does not count. The kernel
        # writes its line after the kill.
        give_up = time.monotonic() + _KERNEL_LINE_LIMIT_S
        while True:
            lines = _kernel_lines()
            if lines is None:
                return counted is None
            if any(f"Killed process {pid} " in line for line in lines):
                return True
            if time.monotonic() > give_up:
                return False
            time.sleep(0.02)


def _kernel_lines() -> Optional[List[str]]:
    """The kernel's log; None where it cannot be read, or calls processes by other numbers."""
    try:
        if os.readlink("/proc/self/ns/pid") != _FIRST_PID_NAMESPACE:
            return None
        log = os.open(_KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    lines: List[str] = []
    try:
        while True:
            try:
                lines.append(os.read(log, 8192).decode("utf-8", "replace"))
            except BrokenPipeError:
                # What came next has been overwritten.
                continue
            except OSError:
                return lines
    finally:
        os.close(log)


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
        # No need to look who: whoever is below this process is so through a child of it, and a look at
        # all processes misses one that is started meanwhile.
        return has_children() or bool(self.group and self.group.pids())

    def signal_all(self, number: int) -> None:
        """One signal to each process."""
        for pid in self.pids():
            process.send(pid, number)

    def kill(self, limit_s: float = 5.0) -> bool:
        """SIGKILL until nothing is left; False when something outlives it, and `limit_s` is over."""
        give_up = time.monotonic() + limit_s
        pause_s = 0.001
        killed: Set[int] = set()
        while self.has_any():
            pids = self.pids()
            # Where this process had to wait for long, others may have been started meanwhile.
            if time.monotonic() > give_up and killed.issuperset(pids):
                return False
            if self.group:
                self.group.kill()
            for pid in pids:
                process.send(pid, signal.SIGKILL)
            killed.update(pids)
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
