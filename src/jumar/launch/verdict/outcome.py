"""Exits and logs in words that a person can use."""

import os
import signal
from typing import List, Optional

from jumar.launch.jobdir.endings import Values
from jumar.launch.processes.left_behind import LeftBehind
from jumar.launch.processes.spawn import open_log
from jumar.launch.processes.supervise import SCHEDULER, Exit


class SetupFailed(Exception):
    """The attempt could not come as far as starting its ranks."""

    def __init__(
        self, cause: str, reason: str, tail: str = "", values: Optional[Values] = None
    ) -> None:
        """`values`: what the reason is said with in other languages."""
        super().__init__(reason)
        self.cause = cause
        self.tail = tail
        self.values = values or {}


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
