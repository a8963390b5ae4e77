"""The one supervision core: start ranks, wait, end all when one fails or a stop is asked.

Who asks, where results go and what the ranks are is not known here; `attempt` (a job) and
`standalone` (the launcher on a command line) both run on it. The calling process must be a
subreaper."""

import os
import signal
import time
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from jumar.launch import process
from jumar.launch.cgroup import OomWatch
from jumar.launch.control import Control, Stop
from jumar.launch.spawn import CannotStart, Program, spawn
from jumar.launch.tree import Tree, polite_targets


class Rank(NamedTuple):
    """One program of a group that lives and dies together."""

    rank: int
    program: Program
    is_service: bool = False
    """A helper, such as a scheduler: when all others are done it is ended too."""
    is_aside: bool = False
    """One whose own end, however it comes, means nothing for the others."""


SCHEDULER = -1
"""The rank of the helper process that a MindSpore cluster needs."""

SENDER = -2
"""The rank of the helper process that sends results while the others run."""

RUN_AGAIN = 75
"""The exit code of a rank that has saved and wants to be run again."""


class Exit(NamedTuple):
    """How one rank ended."""

    rank: int
    at: float
    code: Optional[int]
    signal: Optional[int]
    asked: bool
    """Whether it had been asked to end, or was killed, from here."""
    out_of_memory: bool = False

    @property
    def failed(self) -> bool:
        """Neither done nor saved."""
        return self.code not in (0, RUN_AGAIN)


class Outcome(NamedTuple):
    """How the group ended."""

    exits: Tuple[Exit, ...]
    """In the order of time."""
    stop: Optional[Stop] = None
    not_started: Optional[Tuple[int, CannotStart]] = None
    left_over: bool = False
    """Something could not be ended, such as another user's process."""

    @property
    def first_failure(self) -> Optional[Exit]:
        """The exit that caused the others: the first failing one that nobody had asked for."""
        for exit_ in self.exits:
            if exit_.failed and not exit_.asked:
                return exit_
        return None


class Listener:
    """What a caller may want to hear; does nothing by itself."""

    def started(self, pids: Dict[int, int]) -> None:
        """All ranks run; rank to pid."""

    def exited(self, exit_: Exit) -> None:
        """One rank ended."""

    def ending(self, stop: Optional[Stop]) -> None:
        """The ranks are being asked to end; None: because one failed."""

    def tick(self, running: Sequence[int], exits: Sequence[Exit]) -> None:
        """Called at least every half second while ranks run."""


def supervise(
    ranks: Sequence[Rank],
    control: Control,
    tree: Tree,
    *,
    grace_s: float,
    listener: Optional[Listener] = None,
    limit_s: Optional[float] = None,
) -> Outcome:
    """Run the group to its end; nothing of it is left when this returns."""
    return _Group(ranks, control, tree, grace_s, listener or Listener(), limit_s).run()


class _Group:
    def __init__(
        self,
        ranks: Sequence[Rank],
        control: Control,
        tree: Tree,
        grace_s: float,
        listener: Listener,
        limit_s: Optional[float],
    ) -> None:
        self._ranks = ranks
        self._control = control
        self._tree = tree
        self._grace_s = grace_s
        self._listener = listener
        self._limit = None if limit_s is None else time.monotonic() + limit_s
        self._running: Dict[int, Rank] = {}
        self._exits: List[Exit] = []
        self._asked: Set[int] = set()
        self._stop: Optional[Stop] = None
        self._kill_at: Optional[float] = None
        self._oom = OomWatch(tree.group)

    def run(self) -> Outcome:
        not_started = self._start()
        while self._running:
            self._control.wait(self._patience_s())
            self._pass_on()
            self._reap()
            self._decide()
            self._listener.tick([r.rank for r in self._running.values()], self._exits)
        self._end_leftovers()
        left_over = not self._tree.kill()
        return Outcome(tuple(self._exits), self._stop, not_started, left_over)

    def _start(self) -> Optional[Tuple[int, CannotStart]]:
        for rank in self._ranks:
            try:
                self._running[spawn(rank.program)] = rank
            except CannotStart as error:
                if rank.is_aside:
                    continue
                self._ask(signal.SIGTERM)
                return rank.rank, error
        self._listener.started({rank.rank: pid for pid, rank in self._running.items()})
        if self._tree.group:
            for pid in self._running:
                self._tree.group.take_in(pid)
        return None

    def _patience_s(self) -> float:
        moment = self._limit if self._kill_at is None else self._kill_at
        return 60.0 if moment is None else max(0.0, moment - time.monotonic())

    def _pass_on(self) -> None:
        for number in self._control.take_passed_on():
            for pid in self._running:
                for target in polite_targets(pid):
                    process.send(target, number)

    def _reap(self) -> None:
        ended: List[Tuple[float, Exit]] = []
        for pid, status in _ended_children():
            rank = self._running.pop(pid, None)
            if rank is not None and not rank.is_aside:
                ended.append((_last_write(rank.program.log), self._exit_of(rank, status)))
        # Several may have ended since the last look; who wrote last died last.
        for _, exit_ in sorted(ended, key=lambda pair: pair[0]):
            self._exits.append(exit_)
            self._listener.exited(exit_)

    def _exit_of(self, rank: Rank, status: int) -> Exit:
        asked = rank.rank in self._asked
        if not os.WIFSIGNALED(status):
            return Exit(rank.rank, time.time(), os.WEXITSTATUS(status), None, asked)
        number = os.WTERMSIG(status)
        out_of_memory = number == signal.SIGKILL and self._kill_at is None and self._oom.grew()
        return Exit(rank.rank, time.time(), None, number, asked, out_of_memory)

    def _decide(self) -> None:
        if self._stop is None and self._running:
            self._stop = self._reason_to_stop()
            if self._stop is not None:
                # First what the ranks may read when they hear the signal.
                self._listener.ending(self._stop)
                self._ask(self._stop.signal)
        if self._kill_at is None:
            self._follow_exits()
        now = time.monotonic()
        if self._control.impatient or (self._kill_at is not None and now >= self._kill_at):
            self._kill()

    def _reason_to_stop(self) -> Optional[Stop]:
        if self._control.stop is not None:
            return self._control.stop
        if self._limit is not None and time.monotonic() >= self._limit:
            return Stop("step-limit")
        return None

    def _follow_exits(self) -> None:
        if any(exit_.failed for exit_ in self._exits):
            self._listener.ending(None)
            self._ask(signal.SIGTERM)
        elif self._exits and all(rank.is_service for rank in self._running.values()):
            self._ask(signal.SIGTERM)

    def _ask(self, number: int) -> None:
        for pid, rank in self._running.items():
            self._asked.add(rank.rank)
            for target in polite_targets(pid):
                process.send(target, number)
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._grace_s

    def _kill(self) -> None:
        self._asked.update(rank.rank for rank in self._running.values())
        if self._tree.group:
            self._tree.group.kill()
        self._tree.signal_all(signal.SIGKILL)
        self._kill_at = time.monotonic() + 0.05

    def _end_leftovers(self) -> None:
        """What outlives its rank after a polite request may still save something."""
        if self._stop is None or self._kill_at is None or not self._tree.has_any():
            return
        self._tree.signal_all(signal.SIGTERM)
        while time.monotonic() < self._kill_at and not self._control.impatient:
            if not self._tree.has_any():
                return
            self._control.wait(min(0.05, max(0.0, self._kill_at - time.monotonic())))


def _ended_children() -> List[Tuple[int, int]]:
    ended: List[Tuple[int, int]] = []
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return ended
            ended.append((pid, status))
    except ChildProcessError:
        return ended


def _last_write(log: str) -> float:
    try:
        return os.stat(log).st_mtime
    except OSError:
        return 0.0
