"""Three processes watch over each other: whichever is killed, another one ends what is left.

The keeper only waits. It is the subreaper above the supervisor, so when that is killed, all that
it had started becomes the keeper's. A channel connects them: its closing tells the supervisor that
the keeper is gone, and through it the supervisor says how it ended.

The watcher is there for when both are killed together. It is below nobody who is watched: it sleeps until
both have closed a pipe, and then ends whatever is in the cgroup of the run or has its mark in the
environment. Nothing is started before it has said that it is there."""

import contextlib
import errno
import fcntl
import os
import signal
import socket
import sys
import time
from types import FrameType
from typing import Callable, Dict, NamedTuple, Optional

from jumar.launch.processes import process
from jumar.launch.processes.tree import Cgroup

_CRASHED = 70
_GO = b"go"
_PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_ARMED, _DONE = b"+", b"."
_HERE = b"!"
_NAME = "jumar-watcher"
_TRIES = 5
_LIMIT_S = 60.0
"""How long it goes on where something cannot be ended."""
_LOOK_S = 0.05
_CLEAN_LOOKS = 3
"""One alone may miss a process that is started meanwhile, by one that ends meanwhile."""
_CALMS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Supervisor(NamedTuple):
    """The keeper's child."""

    pid: int
    identity: process.Identity
    channel: int
    """The keeper's end; open as long as the keeper lives, because its closing is a message."""

    def begin(self) -> None:
        """Let it begin; one that is gone already is seen by `wait_for`."""
        try:
            os.write(self.channel, _GO)
        except ConnectionError:
            return

    def dismiss(self) -> None:
        """Let it end without having begun."""
        os.close(self.channel)
        wait_for(self)

    def last_words(self, most_bytes: int) -> bytes:
        """What it said last before it ended; nothing when it said nothing, or too much."""
        words = b""
        os.set_blocking(self.channel, False)
        while True:
            try:
                heard = os.read(self.channel, most_bytes + 1)
            except (BlockingIOError, ConnectionError):
                break
            if not heard:
                break
            words = heard
        return words if len(words) <= most_bytes else b""


def fork_supervisor(body: Callable[[int], int]) -> Supervisor:
    """Run `body` in a child that sees the end of the calling process on the given descriptor.

    Signals wait until the child's `Control` hears them."""
    process.become_subreaper()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    try:
        pid = fork_into(lambda: _supervisor(body, ours, theirs))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
    identity = process.identify(pid)
    if identity is None:
        raise RuntimeError(f"the supervisor {pid} is not in /proc")
    _pass_signals_on(pid)
    return Supervisor(pid, identity, ours.detach())


def may_begin(channel: int) -> bool:
    """Wait, as the supervisor, for the keeper's word; False when it needs none."""
    return os.read(channel, len(_GO)) == _GO


def say(channel: int, words: bytes) -> bool:
    """Tell the keeper, as the supervisor; whether it can be heard. Never waits."""
    os.set_blocking(channel, False)
    try:
        os.write(channel, words)
    except OSError:
        # The keeper is gone, or the job has taken the channel and filled it.
        return False
    return True


def wait_for(supervisor: Supervisor) -> int:
    """Its exit code, or minus the signal that killed it."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == supervisor.pid:
            return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def fork_into(body: Callable[[], int]) -> int:
    """Fork; the child runs `body` and never returns from here."""
    pid = os.fork()
    if pid != 0:
        return pid
    code = _CRASHED
    try:
        code = body()
    finally:
        failure = sys.exc_info()
        if failure[0] is not None:
            sys.excepthook(*failure)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _supervisor(body: Callable[[int], int], ours: socket.socket, theirs: socket.socket) -> int:
    ours.close()
    for number in _PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    # A session of its own: Ctrl-C on a terminal then reaches it once, through the keeper.
    os.setsid()
    process.become_subreaper()
    return body(theirs.detach())


def _pass_signals_on(pid: int) -> None:
    def pass_on(number: int, frame: Optional[FrameType]) -> None:
        process.send(pid, number)

    for number in _PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, pass_on)


class Watcher:
    """The end of the pipe that keeper and supervisor hold; ranks never do."""

    def __init__(self, mark: Dict[str, str], place: Optional[str]) -> None:
        """Call it before this process becomes a subreaper, and `arm` it. Raises OSError."""
        for _ in range(_TRIES):
            said = _start_watcher(mark, place)
            if said is not None:
                self._said = said
                return
        words = f"the process that is to watch over it ended {_TRIES} times"
        raise ChildProcessError(errno.ECHILD, words)

    def arm(self) -> None:
        """From now on what has the mark is ours, and ends with us."""
        self._say(_ARMED)

    def dismiss(self) -> None:
        """Everything has ended."""
        self._say(_DONE)
        os.close(self._said)

    def _say(self, word: bytes) -> None:
        # Somebody may have killed it.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._said, word)


def _start_watcher(mark: Dict[str, str], place: Optional[str]) -> Optional[int]:
    """The end of the pipe to a new watcher; None when that one, or the process that detaches it, was
    killed before it stood on its own. Raises OSError."""
    heard, said = os.pipe()
    answer, answers = os.pipe()
    try:
        between = os.fork()
    except OSError:
        for end in (heard, said, answer, answers):
            os.close(end)
        raise
    if between == 0:
        _detach(heard, answers, mark, place)
    os.close(heard)
    os.close(answers)
    # Once that one is gone, the watcher is below us no more.
    os.waitpid(between, 0)
    is_here = os.read(answer, 1) == _HERE
    os.close(answer)
    if is_here:
        return said
    os.close(said)
    return None


def _detach(heard: int, answers: int, mark: Dict[str, str], place: Optional[str]) -> None:
    """Never returns."""
    try:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        for number in _CALMS:
            signal.signal(number, signal.SIG_IGN)
        _take_pipes(heard, answers)
        os.chdir("/")
        # Else `pkill -9 -f train.py` and `killall -9 python` end it with those that it watches.
        process.set_name(_NAME)
        process.set_title(_NAME)
        os.write(4, _HERE)
        # Pipes of others that stay open here would seem to have a reader. Old kernels take their time, so
        # nobody waits for it.
        os.closerange(4, 65536)
        if os.read(3, 1) == _ARMED and os.read(3, 1) != _DONE:
            end_all(mark, place)
    finally:
        if sys.exc_info()[0] is not None:
            os._exit(1)
        os._exit(0)


def _take_pipes(heard: int, answers: int) -> None:
    """As 3 and 4; the standard files are nobody's."""
    # First out of the way of each other.
    heard, answers = (fcntl.fcntl(end, fcntl.F_DUPFD, 5) for end in (heard, answers))
    os.dup2(heard, 3)
    os.dup2(answers, 4)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)


def end_all(mark: Dict[str, str], place: Optional[str]) -> None:
    """Kill what is in the group or has the mark, until nothing of it is seen any more."""
    group = None if place is None else Cgroup(place)
    until, clean = time.monotonic() + _LIMIT_S, 0
    while time.monotonic() < until and clean < _CLEAN_LOOKS:
        try:
            clean = 0 if _end_seen(mark, group) else clean + 1
        except OSError:
            # For want of memory, or of files: of the whole machine, not ours.
            clean = 0
        time.sleep(_LOOK_S)


def _end_seen(mark: Dict[str, str], group: Optional[Cgroup]) -> bool:
    """Whether anything was left."""
    if group is not None:
        group.kill()
    pids = {stat.pid for stat in process.with_environment(mark)}
    pids.update(group.pids() if group is not None else ())
    for pid in pids:
        process.send(pid, signal.SIGKILL)
    return bool(pids) or (group is not None and not group.remove())
