"""Who ends what is left when keeper and supervisor are killed together.

A process of its own, below nobody who is watched: it sleeps until both have closed a pipe, and then ends
whatever is in the cgroup of the run or has its mark in the environment. Nothing is started before it has
said that it is there."""

import contextlib
import errno
import fcntl
import os
import signal
import sys
import time
from typing import Dict, Optional

from jumar.launch.processes import process
from jumar.launch.processes.tree import Cgroup

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


class Watcher:
    """The end of the pipe that keeper and supervisor hold; ranks never do."""

    def __init__(self, mark: Dict[str, str], place: Optional[str]) -> None:
        """Call it before this process becomes a subreaper, and `arm` it. Raises OSError."""
        for _ in range(_TRIES):
            said = _start(mark, place)
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


def _start(mark: Dict[str, str], place: Optional[str]) -> Optional[int]:
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
        _take(heard, answers)
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


def _take(heard: int, answers: int) -> None:
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
