"""One command in its own session, until it ends or reaches its limit."""

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from jumar.errors import BadInput

# The script ends by itself at its next step; these are for one that never reaches a step.
_GRACE_S = 10
_TICK_S = 15
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run, where, and for how long."""

    words: tuple[str, ...]
    environ: Mapping[str, str]
    folder: Path | None = None
    time_s: int = 0
    output: IO[bytes] | None = None
    """Receives stdout and stderr; without it, both are the caller's."""
    stdout: int | None = None
    """A file descriptor to use instead of the caller's stdout."""
    tick: Callable[[float], None] | None = None
    """Called now and then while it runs, with the seconds since its start."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How it went."""

    code: int
    """As in a shell: 128 plus the signal number if a signal ended it."""
    stopped: bool
    """By the time limit."""
    seconds: float


def with_own_python(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` with a PATH on which `python` exists, if only as jumar's own."""
    own = os.path.dirname(sys.executable)
    folders = environ.get("PATH", os.defpath)
    if own not in folders.split(os.pathsep):
        folders = os.pathsep.join((folders, own))
    return {**environ, "PATH": folders}


def resolved(words: Sequence[str], environ: Mapping[str, str], folder: Path) -> tuple[str, ...]:
    """`words` with the program's full path; one with a slash is relative to `folder`."""
    name = words[0]
    if "/" in name:
        found = name if os.access(folder / name, os.X_OK) else None
    else:
        found = shutil.which(name, path=environ.get("PATH"))
    if found is None:
        raise BadInput(
            f"{name!r} is not a program on this machine", hint="write: -- python train.py"
        )
    return (found, *words[1:])


@contextmanager
def leaving_on_term() -> Generator[None]:
    """A SIGTERM in here leaves neither a command nor scratch files behind."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run(command: Command) -> Ended:
    """Run the command; everything it has started ends with it."""
    with leaving_on_term():
        return _run(command)


class _Held:
    """Signals that come while a process is started wait until somebody can end it."""

    def __init__(self) -> None:
        self._came: list[int] = []
        self._before = {
            number: signal.signal(number, lambda number, frame: self._came.append(number))
            for number in (signal.SIGINT, signal.SIGTERM)
        }

    def release(self) -> None:
        """From here on they raise again, at once if one has come."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for number in self._came:
            signal.raise_signal(number)


def _started(command: Command, held: _Held) -> "subprocess.Popen[bytes]":
    try:
        # A separate session, so that the limit and Ctrl-C also reach the children.
        return subprocess.Popen(
            command.words,
            env=command.environ,
            cwd=command.folder,
            stdin=None if command.output is None else subprocess.DEVNULL,
            stdout=command.output if command.output is not None else command.stdout,
            stderr=command.output,
            start_new_session=True,
        )
    except OSError:
        held.release()
        raise


def _run(command: Command) -> Ended:
    started = time.monotonic()
    held = _Held()
    process = _started(command, held)
    stopped = False
    try:
        held.release()
        code = _wait(process, command, started)
    except subprocess.TimeoutExpired:
        stopped = True
        code = _end(process)
    except KeyboardInterrupt:
        _end(process)
        raise
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
    return Ended(code if code >= 0 else 128 - code, stopped, time.monotonic() - started)


def _wait(process: "subprocess.Popen[bytes]", command: Command, started: float) -> int:
    limit = command.time_s + _GRACE_S if command.time_s else math.inf
    while True:
        elapsed = time.monotonic() - started
        try:
            return process.wait(timeout=max(0.0, min(_TICK_S, limit - elapsed)))
        except subprocess.TimeoutExpired:
            if elapsed >= limit:
                raise
            if command.tick is not None:
                command.tick(time.monotonic() - started)


def _end(process: "subprocess.Popen[bytes]") -> int:
    """Ask the whole session to end, then kill it."""
    for number in _SIGNALS:
        _signal_group(process.pid, number)
        try:
            return process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    return process.wait()


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return
