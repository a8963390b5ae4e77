"""Two processes watch each other: whichever is killed, the other ends what is left.

The guard only waits. It is the subreaper above the supervisor, so when that is killed, all that
it had started becomes the guard's."""

import os
import signal
import sys
from types import FrameType
from typing import Callable, NamedTuple, Optional

from jumar.launch.processes import process

_CRASHED = 70
_PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


class Supervisor(NamedTuple):
    """The guard's child."""

    pid: int
    identity: process.Identity


def fork_supervisor(body: Callable[[int], int]) -> Supervisor:
    """Run `body` in a child that sees the end of the calling process on the given descriptor."""
    process.become_subreaper()
    seen_end, held_end = os.pipe()
    pid = fork_into(lambda: _supervisor(body, seen_end, held_end))
    os.close(seen_end)
    # held_end stays open as long as this process lives: its closing is the message.
    identity = process.identify(pid)
    if identity is None:
        raise RuntimeError(f"the supervisor {pid} is not in /proc")
    _pass_signals_on(pid)
    return Supervisor(pid, identity)


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


def _supervisor(body: Callable[[int], int], seen_end: int, held_end: int) -> int:
    os.close(held_end)
    for number in _PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    # A session of its own: Ctrl-C on a terminal then reaches it once, through the guard.
    os.setsid()
    process.become_subreaper()
    return body(seen_end)


def _pass_signals_on(pid: int) -> None:
    def pass_on(number: int, frame: Optional[FrameType]) -> None:
        process.send(pid, number)

    for number in _PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, pass_on)
