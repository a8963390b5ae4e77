"""Who ends what is left when keeper and supervisor are killed together.

A process of its own, below nobody who is watched: it sleeps until both have closed a pipe, and then ends
whatever is in the cgroup of the run or has its mark in the environment."""

import contextlib
import os
import signal
import sys
import time
from typing import Dict, Optional

from jumar.launch.processes import process
from jumar.launch.processes.tree import Cgroup

_ARMED, _DONE = b"+", b"."
_LIMIT_S = 10.0
_CALMS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Watcher:
    """The end of the pipe that keeper and supervisor hold; ranks never do."""

    def __init__(self, mark: Dict[str, str], place: Optional[str]) -> None:
        """Call it before this process becomes a subreaper, and `arm` it. Raises OSError."""
        heard, self._said = os.pipe()
        between = os.fork()
        if between == 0:
            _detach(heard, mark, place)
        os.close(heard)
        os.waitpid(between, 0)

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


def _detach(heard: int, mark: Dict[str, str], place: Optional[str]) -> None:
    """Never returns."""
    try:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        for number in _CALMS:
            signal.signal(number, signal.SIG_IGN)
        os.dup2(heard, 3)
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        # Pipes of others that stay open here would seem to have a reader.
        os.closerange(4, 65536)
        os.chdir("/")
        if os.read(3, 1) == _ARMED and os.read(3, 1) != _DONE:
            _end_all(mark, place)
    finally:
        if sys.exc_info()[0] is not None:
            os._exit(1)
        os._exit(0)


def _end_all(mark: Dict[str, str], place: Optional[str]) -> None:
    group = None if place is None else Cgroup(place)
    until = time.monotonic() + _LIMIT_S
    while time.monotonic() < until:
        if group is not None:
            group.kill()
        pids = {stat.pid for stat in process.with_environment(mark)}
        pids.update(group.pids() if group is not None else ())
        for pid in pids:
            process.send(pid, signal.SIGKILL)
        if not pids and (group is None or group.remove()):
            return
        time.sleep(0.05)
