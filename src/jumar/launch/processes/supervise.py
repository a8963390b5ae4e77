"""The one supervision core: start ranks, wait, end all when one fails or a stop is asked.

Who asks, where results go and what the ranks are is not known here; `attempt` (a job) and
`standalone` (the launcher on a command line) both run on it. The calling process must be a
subreaper."""

import os
import signal
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from jumar.launch.processes import process
from jumar.launch.processes.container import has_own_shell
from jumar.launch.processes.control import Control, Stop
from jumar.launch.processes.left_behind import IDLE_LIMIT_S, Left, LeftBehind
from jumar.launch.processes.spawn import CannotStart, Program, spawn
from jumar.launch.processes.tree import OomWatch, Tree, has_children, polite_targets


class Rank(NamedTuple):
    """One program of a group that lives and dies together."""

    rank: int
    program: Program
    is_service: bool = False
    """A helper, such as a scheduler: when all others are done it is ended too."""
    is_aside: bool = False
    """One whose own end, however it comes, means nothing for the others."""
    is_starter: bool = False
    """A command that starts its ranks itself: what it leaves at work when it is done is waited for."""


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
    """On the monotonic clock."""
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
    left_failure: Optional[Tuple[Left, Exit]] = None
    """The first process that failed after the command that had started it was done."""

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

    def must_hold(self) -> bool:
        """Whether the ranks shall stand still until they are asked to end."""
        return False

    def held(self) -> None:
        """They do."""

    def patience_s(self) -> float:
        """How long the others may go on after a failure: the one that caused it may be among them."""
        return 0.0

    def left_running(self, left: LeftBehind) -> None:
        """The command is done, and what it has started is waited for."""

    def left_failed(self, left: Left, exit_: Exit) -> None:
        """One of them failed; the others go on."""

    def left_idle(self, left: LeftBehind) -> None:
        """All of them have been idle for long enough, and are asked to end."""

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
    idle_limit_s: float = IDLE_LIMIT_S,
) -> Outcome:
    """Run the group to its end; nothing of it is left when this returns."""
    heard_by = listener or Listener()
    return _Group(ranks, control, tree, grace_s, heard_by, limit_s, idle_limit_s).run()


class _Group:
    def __init__(
        self,
        ranks: Sequence[Rank],
        control: Control,
        tree: Tree,
        grace_s: float,
        listener: Listener,
        limit_s: Optional[float],
        idle_limit_s: float,
    ) -> None:
        self._ranks = ranks
        self._control = control
        self._tree = tree
        self._grace_s = grace_s
        self._listener = listener
        self._limit = None if limit_s is None else time.monotonic() + limit_s
        self._idle_limit_s = idle_limit_s
        self._running: Dict[int, Rank] = {}
        self._left: Optional[LeftBehind] = None
        self._left_failure: Optional[Tuple[Left, Exit]] = None
        self._is_left_told = False
        self._exits: List[Exit] = []
        self._asked: Set[int] = set()
        self._held: List[int] = []
        """Processes that stand still, or did so before they were asked to end."""
        self._stop: Optional[Stop] = None
        self._kill_at: Optional[float] = None
        self._oom = OomWatch(tree.group)

    def run(self) -> Outcome:
        not_started = self._start()
        while self._running or self._left is not None:
            self._control.wait(self._patience_s())
            self._pass_on()
            if self._reap() or (self._left is not None and self._left.due_in_s == 0.0):
                self._look_at_left()
            self._decide()
            self._listener.tick([r.rank for r in self._running.values()], self._exits)
        self._note_obeyed()
        self._end_leftovers()
        left_over = not self._tree.kill()
        return Outcome(tuple(self._exits), self._stop, not_started, left_over, self._left_failure)

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
        patience_s = 60.0 if moment is None else max(0.0, moment - time.monotonic())
        return patience_s if self._left is None else min(patience_s, self._left.due_in_s)

    def _pass_on(self) -> None:
        for number in self._control.take_passed_on():
            left = self._left.children(self._running) if self._left is not None else []
            for pid in (*self._running, *left):
                for target in polite_targets(pid):
                    process.send(target, number)

    def _reap(self) -> bool:
        """Whether any process has ended."""
        ended: List[Tuple[float, Exit]] = []
        reaped = _ended_children()
        for pid, status in reaped:
            rank = self._running.pop(pid, None)
            if rank is None:
                self._left_one_ended(pid, status)
            elif not rank.is_aside:
                ended.append((_last_write(rank.program.log), self._exit_of(rank, pid, status)))
                self._wait_for_left(rank, ended[-1][1])
        # Several may have ended since the last look; who wrote last died last.
        for _, exit_ in sorted(ended, key=lambda pair: pair[0]):
            self._exits.append(exit_)
            self._listener.exited(exit_)
        return bool(reaped)

    def _wait_for_left(self, rank: Rank, exit_: Exit) -> None:
        if rank.is_starter and exit_.code == 0 and not exit_.asked and has_children():
            self._left = LeftBehind(self._idle_limit_s)

    def _left_one_ended(self, pid: int, status: int) -> None:
        left = self._left.ended(pid) if self._left is not None else None
        if left is None or self._kill_at is not None:
            return
        starter = next(rank for rank in self._ranks if rank.is_starter)
        exit_ = self._exit_of(starter, pid, status)
        if exit_.failed and not _is_on_request(exit_):
            self._left_failure = self._left_failure or (left, exit_)
            # The others may have nothing to do with it: a training for each card.
            self._listener.left_failed(left, exit_)

    def _look_at_left(self) -> None:
        left = self._left
        if left is None:
            return
        try:
            if not left.look(self._running):
                self._left = None
                return
        except OSError:
            # Not known now, for want of descriptors or memory; nobody is ended for that.
            return
        if left.is_settled and not self._is_left_told:
            self._is_left_told = True
            self._listener.left_running(left)
        if left.is_idle and self._kill_at is None:
            self._listener.left_idle(left)
            self._ask(signal.SIGTERM)

    def _exit_of(self, rank: Rank, pid: int, status: int) -> Exit:
        asked = rank.rank in self._asked
        if not os.WIFSIGNALED(status):
            code = os.WEXITSTATUS(status)
            if 128 < code < 128 + signal.NSIG and has_own_shell(rank.program):
                # As the shell in the container has it.
                return Exit(rank.rank, time.monotonic(), None, code - 128, asked)
            return Exit(rank.rank, time.monotonic(), code, None, asked)
        number = os.WTERMSIG(status)
        out_of_memory = number == signal.SIGKILL and self._kill_at is None and self._oom.killed(pid)
        return Exit(rank.rank, time.monotonic(), None, number, asked, out_of_memory)

    def _decide(self) -> None:
        if not self._held and self._stop is None and self._listener.must_hold():
            self._hold()
        if self._stop is None and (self._running or self._left is not None):
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

    def _note_obeyed(self) -> None:
        """Ranks that read a request to stop, save and leave may be gone before it is seen here; it is why
        they left all the same."""
        if self._stop is not None or all(exit_.code != RUN_AGAIN for exit_ in self._exits):
            return
        self._control.wait(0.0)
        asked = self._control.stop
        self._stop = asked if asked is not None and asked.is_from_outside else None

    def _reason_to_stop(self) -> Optional[Stop]:
        if self._control.stop is not None:
            return self._control.stop
        if self._limit is not None and time.monotonic() >= self._limit:
            return Stop("step-limit")
        return None

    def _follow_exits(self) -> None:
        failed_at = min((exit_.at for exit_ in self._exits if exit_.failed), default=None)
        if failed_at is not None:
            if time.monotonic() < failed_at + self._listener.patience_s():
                return
            self._listener.ending(None)
            self._ask(signal.SIGTERM)
        elif (
            self._left is None
            and self._exits
            and all(rank.is_service for rank in self._running.values())
        ):
            self._ask(signal.SIGTERM)

    def _hold(self) -> None:
        self._held = self._targets()
        for target in self._held:
            process.send(target, signal.SIGSTOP)
        self._listener.held()

    def _targets(self) -> List[int]:
        return [target for pid in self._running for target in polite_targets(pid)]

    def _ask(self, number: int) -> None:
        self._asked.update(rank.rank for rank in self._running.values())
        send = process.send_to_main_thread if self._held else process.send
        for target in self._targets():
            send(target, number)
        for target in self._held:
            # It now hears what it was sent before it does anything else.
            process.send(target, signal.SIGCONT)
        if self._left is not None:
            self._ask_left(self._left)
        if self._kill_at is None:
            self._kill_at = self._control.kill_at(self._grace_s)

    def _ask_left(self, left: LeftBehind) -> None:
        for pid in left.children(self._running):
            for target in polite_targets(pid):
                # Not INT, which a shell's background does not hear; what is stopped must run to hear.
                process.send(target, signal.SIGTERM)
                process.send(target, signal.SIGCONT)

    def _kill(self) -> None:
        self._asked.update(rank.rank for rank in self._running.values())
        if self._tree.group:
            self._tree.group.kill()
        self._tree.signal_all(signal.SIGKILL)
        self._left = None
        self._kill_at = time.monotonic() + 0.05

    def _end_leftovers(self) -> None:
        """What outlives its rank after a polite request may still save something."""
        if self._stop is None or self._kill_at is None or not self._tree.has_any():
            return
        # A shell ends at once; what it has started may still be writing down where it was.
        self._wait_while(lambda: any(map(process.is_running, self._held)), self._kill_at)
        self._tree.signal_all(signal.SIGTERM)
        self._wait_while(self._tree.has_any, self._kill_at)

    def _wait_while(self, is_so: Callable[[], bool], until: float) -> None:
        while time.monotonic() < until and not self._control.impatient and is_so():
            self._control.wait(min(0.05, max(0.0, until - time.monotonic())))


def _is_on_request(exit_: Exit) -> bool:
    """Whether somebody asked it to end: the command's own `kill $!` before it ended, or a person."""
    number = exit_.signal if exit_.signal is not None else (exit_.code or 0) - 128
    return number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


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
