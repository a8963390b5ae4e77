"""Create a planned environment, and remove it again if anything goes wrong.

A virtual environment cannot be moved, so it is created in place. A marker file next to it, locked
during the work, marks it as unfinished: after a crash, the next run removes it."""

import contextlib
import fcntl
import logging
import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path

from jumar.errors import Conflict, EngineFailed
from jumar.host.env.tools import Step
from jumar.launch.processes.process import end_with_parent

log = logging.getLogger(__name__)
Progress = Callable[[str], None]
_TAIL_LINES = 15
_LAST_WAIT_S = 10.0
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
_EXCEPTION = re.compile(r"[\w.]+(Error|Exception): ")
_MAKING = b"being made by jumar\n"


class EnvironmentFailed(EngineFailed):
    """A step of creating the environment failed; the unfinished environment was removed."""


def make_environment(
    at: Path, steps: Sequence[Step], environ: Mapping[str, str], progress: Progress
) -> None:
    """Run the steps. When this returns, `at` is complete; when it raises, `at` does not exist."""
    with _claimed(at):
        for step in steps:
            progress(step.title)
            run_step(step, environ, progress)


@contextlib.contextmanager
def _claimed(at: Path) -> Generator[None]:
    try:
        at.parent.mkdir(parents=True, exist_ok=True)
        marker = at.with_name(f".{at.name}.unfinished")
        descriptor = _lock(marker, at)
    except OSError as error:
        raise EnvironmentFailed(f"cannot create {at}: {error.strerror}") from error
    try:
        _begin(descriptor, marker, at)
        try:
            yield
        except BaseException:
            _remove(at)
            marker.unlink()
            raise
        marker.unlink()
    finally:
        os.close(descriptor)


def _begin(descriptor: int, marker: Path, at: Path) -> None:
    if os.fstat(descriptor).st_size:
        log.info("removing %s, which an earlier run left unfinished", at)
        _remove(at)
    elif os.path.lexists(at):
        marker.unlink()
        raise Conflict(f"{at} already exists", hint="choose another folder with --at")
    else:
        os.write(descriptor, _MAKING)


def _lock(marker: Path, at: Path) -> int:
    while True:
        descriptor = os.open(marker, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Conflict(f"another jumar is creating {at} right now") from None
        # The previous holder may have removed the file between our open and our lock.
        if marker.exists() and os.path.samestat(os.fstat(descriptor), os.stat(marker)):
            return descriptor
        os.close(descriptor)


def _remove(at: Path) -> None:
    if at.is_symlink() or at.is_file():
        at.unlink()
    elif at.exists():
        shutil.rmtree(at)


def run_step(step: Step, environ: Mapping[str, str], progress: Progress) -> None:
    """Run one command within its limit, or raise with its last lines; nothing of it stays behind."""
    log.debug("running %s", step.shown)
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    with _started(step, environ) as process:
        for line in _lines(process, step):
            tail.append(line)
            progress(line)
        try:
            code = process.wait(timeout=_LAST_WAIT_S)
        except subprocess.TimeoutExpired:
            raise EnvironmentFailed(f"{step.shown[0]} closed its output but did not exit") from None
    if code != 0:
        raise EnvironmentFailed(
            f"could not {step.title}: {step.shown[0]} exited with code {code}\n{_last_words(tail)}",
            hint="to see the commands: --dry-run",
        )


def _last_words(tail: Sequence[str]) -> str:
    """The last lines, or only the error where pip shows its own stack for it."""
    crashed = tail and _EXCEPTION.match(tail[-1])
    return tail[-1] if crashed else "\n".join(tail)


@contextlib.contextmanager
def _started(step: Step, environ: Mapping[str, str]) -> "Generator[subprocess.Popen[bytes]]":
    # An interrupt inside Popen would leave a child that nobody knows about: it has to wait.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)

    def prepare_child() -> None:
        end_with_parent(signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        process = subprocess.Popen(
            step.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environ),
            start_new_session=True,
            preexec_fn=prepare_child,
        )
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise EnvironmentFailed(f"cannot run {step.command[0]}: {error.strerror}") from error
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield process
    finally:
        _end(process)


def _lines(process: "subprocess.Popen[bytes]", step: Step) -> Iterator[str]:
    assert process.stdout is not None
    deadline = time.monotonic() + step.limit_s
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not selector.select(left_s):
                raise EnvironmentFailed(f"could not {step.title} within {step.limit_s:g} s")
            block = os.read(process.stdout.fileno(), 65536)
            *lines, rest = (rest + block).replace(b"\r", b"\n").split(b"\n")
            yield from (text for line in lines if (text := line.decode("utf-8", "replace").strip()))
            if not block:
                break
    if rest.strip():
        yield rest.decode("utf-8", "replace").strip()


def _end(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
