"""How an attempt ended, in words that a person can use."""

import os
import signal
from typing import List, Mapping, Optional

from jumar.launch.jobdir.endings import Ending
from jumar.launch.processes.control import Stop
from jumar.launch.processes.left_behind import Left, LeftBehind
from jumar.launch.processes.spawn import open_log
from jumar.launch.processes.supervise import RUN_AGAIN, SCHEDULER, Exit, Outcome

_FULL = "No space left on device"
_EXPLAINED = {
    "disk-full": ": no space left on the disk",
    "missing-command": ": a program that it calls was not found or cannot be run",
}
_STOPS = {
    "stopped": ("stopped", "stopped", "stopped on request"),
    "signal": ("stopped", "stopped", "stopped by a signal to its supervisor"),
    "timed-out": ("timed-out", "time-limit", "ran into its time limit"),
    "preempted": ("preempted", "preempted", "ended to make room for another job"),
    "keeper-killed": ("lost", "supervisor-killed", "its keeper process was killed"),
}


class SetupFailed(Exception):
    """The attempt could not come as far as starting its ranks."""

    def __init__(self, cause: str, reason: str, tail: str = "") -> None:
        super().__init__(reason)
        self.cause = cause
        self.tail = tail


def ending_of(outcome: Outcome, tails: Mapping[int, "LogTail"], disk_full: bool) -> Ending:
    """result.json for ranks that were run (or could not be); `tails` by rank."""
    if outcome.not_started is not None:
        rank, error = outcome.not_started
        return Ending("failed", error.cause, str(error), node=0, rank=_number(rank))
    first = outcome.first_failure
    if first is not None and (outcome.stop is None or outcome.stop.why != "keeper-killed"):
        return _failure(first, tails[first.rank].read(), len(tails) > 1, disk_full)
    if outcome.stop is not None:
        return ending_of_stop(outcome.stop)
    if outcome.left_failure is not None:
        left, exit_ = outcome.left_failure
        return _failure_of_left(left, exit_, tails[exit_.rank], disk_full)
    for exit_ in outcome.exits:
        if exit_.code == RUN_AGAIN:
            reason = f"rank {exit_.rank} asked to be run again (code {RUN_AGAIN}); nothing does yet"
            return Ending("failed", "exit-code", reason, RUN_AGAIN, node=0, rank=exit_.rank)
    return Ending("succeeded", "done", "done", exit_code=0)


def ending_of_stop(stop: Stop) -> Ending:
    """result.json for an attempt that was made to end."""
    state, cause, reason = _STOPS.get(stop.why, ("stopped", "stopped", f"ended: {stop.why}"))
    return Ending(state, cause, stop.words or reason)


def describe(exit_: Exit) -> str:
    """`exited with code 3`, `was killed by SIGSEGV`."""
    if exit_.out_of_memory:
        return "was killed because memory ran out"
    if exit_.signal is not None:
        return f"was killed by {signal_name(exit_.signal)}"
    return f"exited with code {exit_.code}"


def describe_left(left: LeftBehind) -> str:
    """Why a job goes on whose command has ended."""
    several = left.count() > 1
    who_runs = f"{left.count()} processes that it started still run"
    started = who_runs if several else "a process that it started still runs"
    return f"the command has ended; {started}: {left.names()}"


def describe_idle(left: LeftBehind) -> str:
    """Why they are waited for no longer."""
    return (
        "what the command left running is ended, as it holds no card and has used no CPU"
        f" for {left.idle_limit_s:g} s: {left.names()}"
    )


def who(rank: int) -> str:
    """A rank as people call it."""
    return "the scheduler" if rank == SCHEDULER else f"rank {rank}"


def signal_name(number: int) -> str:
    """`SIGTERM`, or the number of a real-time signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class LogTail:
    """The end of a log, as far as it was written after this was made, or `from_start`."""

    def __init__(self, path: str, *, from_start: bool = False) -> None:
        self.path = path
        self._start = 0 if from_start else _size(path)

    def read(self, most_bytes: int = 65536, most_lines: int = 40) -> str:
        """The last lines; from the last traceback on if there is one."""
        lines = self._lines(most_bytes)
        for index in range(len(lines) - 1, -1, -1):
            if "Traceback (most recent call last)" in lines[index]:
                lines = lines[index:]
                break
        else:
            lines = lines[-20:]
        if len(lines) > most_lines:
            lines = [lines[0], "…", *lines[2 - most_lines :]]
        return "\n".join(lines)

    def _lines(self, most_bytes: int) -> List[str]:
        try:
            with os.fdopen(open_log(self.path, os.O_RDONLY), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(self._start, size - most_bytes))
                text = file.read(most_bytes).decode("utf-8", "replace")
        except OSError:
            return []
        return text.rstrip().splitlines()


def add_line(path: str, words: str) -> None:
    """A word of the platform in a rank's log; raises OSError."""
    log = open_log(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(log, f"jumar: {words}\n".encode("utf-8", "backslashreplace"))
    finally:
        os.close(log)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _failure_of_left(left: Left, exit_: Exit, log: LogTail, disk_full: bool) -> Ending:
    where = ""
    if left.output is not None and os.path.realpath(left.output) != os.path.realpath(log.path):
        log = LogTail(left.output, from_start=True)
        where = f"; its output is in {left.output}"
    failure = _failure(exit_, log.read(), False, disk_full)
    reason = failure.reason.replace("the command", f"{left}, left running by the command,", 1)
    return failure._replace(reason=reason + where)


def _failure(exit_: Exit, tail: str, name_rank: bool, disk_full: bool) -> Ending:
    reason = f"{who(exit_.rank) if name_rank else 'the command'} {describe(exit_)}"
    cause = _cause(exit_, tail, disk_full)
    reason += _EXPLAINED.get(cause, "")
    name: Optional[str] = None if exit_.signal is None else signal_name(exit_.signal)
    return Ending("failed", cause, reason, exit_.code, name, 0, _number(exit_.rank), tail)


def _number(rank: int) -> Optional[int]:
    return None if rank == SCHEDULER else rank


def _cause(exit_: Exit, tail: str, disk_full: bool) -> str:
    if exit_.out_of_memory:
        return "out-of-memory"
    if _FULL in tail or (disk_full and exit_.signal is None):
        return "disk-full"
    if exit_.signal is not None:
        return "signal"
    # A shell says with 127 and 126 that it could not start what it was told to.
    return "missing-command" if exit_.code in (126, 127) else "exit-code"
