"""Two processes watch each other: whichever is killed, the other ends what is left.

The keeper only waits. It is the subreaper above the supervisor, so when that is killed, all that
it had started becomes the keeper's. A channel connects them: its closing tells the supervisor that
the keeper is gone, and through it the supervisor says how it ended."""

import os
import signal
import socket
import sys
from types import FrameType
from typing import Callable, NamedTuple, Optional

from jumar.launch.processes import process

_CRASHED = 70
_GO = b"go"
_PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


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
