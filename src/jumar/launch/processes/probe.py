"""Ask a tool that may be missing, hang, flood or crash, and always come back.

The tool runs in its own session with `LC_ALL=C` and no input. When the time or the output is used
up, its whole process group is killed and reaped."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

MOST_BYTES = 1 << 20
"""Many times what any tool has to say; readers take seconds for each MB of nonsense."""
END_LIMIT_S = 2.0
_stuck: "List[subprocess.Popen[bytes]]" = []
"""Killed, and not ended in time; reaped at the next question."""


class Answer(NamedTuple):
    """What a tool said. `code` is None when it did not run, did not end in time or said too much."""

    code: Optional[int]
    output: str
    trouble: Optional[str] = None

    @property
    def ok(self) -> bool:
        """Whether the tool ended by itself and was content."""
        return self.code == 0


def ask(
    command: Sequence[str],
    *,
    timeout_s: float,
    environ: Optional[Mapping[str, str]] = None,
    most_bytes: int = MOST_BYTES,
    errors: str = "replace",
) -> Answer:
    """Run `command` and return what it wrote to stdout and stderr, in the order written."""
    _reap_stuck()
    env = dict(os.environ if environ is None else environ, LC_ALL="C")
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Answer(None, "", f"cannot run {command[0]}: {error}")
    deadline = time.monotonic() + timeout_s
    trouble = None
    try:
        output, trouble = _read(process, deadline, most_bytes)
        if trouble is None:
            trouble = _wait(process, deadline)
    finally:
        _end(process)
    text = output.decode("utf-8", errors)
    if trouble is not None:
        return Answer(None, text, f"{command[0]} {trouble} (limit {timeout_s:g} s)")
    return Answer(process.returncode, text)


def _read(
    process: "subprocess.Popen[bytes]", deadline: float, most_bytes: int
) -> Tuple[bytes, Optional[str]]:
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    read = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while len(read) <= most_bytes:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not selector.select(left_s):
                return bytes(read), "did not answer in time"
            block = os.read(descriptor, 65536)
            if not block:
                return bytes(read), None
            read += block
    return bytes(read[:most_bytes]), f"wrote more than {most_bytes} bytes"


def _wait(process: "subprocess.Popen[bytes]", deadline: float) -> Optional[str]:
    # Left unreaped: while the leader is a zombie, its group's number cannot become another's.
    pause_s = 0.001
    flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
    while os.waitid(os.P_PID, process.pid, flags) is None:
        if time.monotonic() > deadline:
            return "did not end in time"
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.05)
    return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    # Also after a normal end: what the tool left in its group must not outlive the question.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    try:
        process.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        # Stuck in the kernel: a driver that hangs lets nobody end, and nobody shall wait for it.
        _stuck.append(process)


def _reap_stuck() -> None:
    _stuck[:] = [process for process in _stuck if process.poll() is None]
