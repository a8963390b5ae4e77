"""All processes of one attempt, and how to end every one of them.

They are those in the attempt's cgroup and those below the calling process, which must be a
subreaper: then a daemon that double-forked into a session of its own is still found."""

import os
import signal
import time
from typing import List, Optional, Set

from jumar.launch.processes import process
from jumar.launch.processes.cgroup import Cgroup

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
