"""The processes of a self-test, found by the mark that all of them have in their environment."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.launch.processes import process
from jumar.launch.processes.process import Identity

MARK = "JUMAR_SELFTEST"
_WARM = b"jumar.engine.local.warm"
_PAUSE_S = 0.05
_KILL_LIMIT_S = 30.0


def marked(run_id: str) -> list[process.Stat]:
    """Everything that this self-test has started and that is still running."""
    return process.with_environment({MARK: run_id})


def of_jobs(run_id: str) -> list[tuple[process.Stat, str]]:
    """Those that a job has started, and the id of that job."""
    found: list[tuple[process.Stat, str]] = []
    for stat in marked(run_id):
        job = re.search(rb"(?:^|\0)JUMAR_JOB_ID=(\w+)", _read(stat.pid, "environ"))
        if job is not None:
            found.append((stat, job[1].decode()))
    return found


def describe(stat: process.Stat) -> str:
    """A line by which people can find it."""
    command = _read(stat.pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return f"process {stat.pid} ({stat.name}): {command[:200]}"


def warm_of(server: int) -> int | None:
    """The warm process of a server. Keepers look like it, but are not the server's children."""
    for stat in process.all_stats():
        if stat.parent == server and not stat.is_dead and _WARM in _read(stat.pid, "cmdline"):
            return stat.pid
    return None


@dataclass(frozen=True, slots=True)
class Running:
    """An attempt that has been claimed and is not over."""

    job: str
    attempt: int
    keeper: Identity
    supervisor: Identity


def running_attempts(home: Path) -> list[Running]:
    """All attempts whose two processes live."""
    found: list[Running] = []
    for path in (home / "jobs").glob("*/attempts/*/node0/claim.json"):
        if path.parent.with_name("result.json").exists():
            continue
        try:
            values: dict[str, Any] = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue  # it is just being written or removed
        one = Running(
            path.parts[-5], int(path.parts[-3]), _identity(values["keeper"]), _identity(values)
        )
        if process.is_alive(one.keeper) and process.is_alive(one.supervisor):
            found.append(one)
    return found


def kill(identity: Identity) -> bool:
    """SIGKILL exactly this process; whether it was running."""
    return process.is_alive(identity) and process.send(identity.pid, signal.SIGKILL)


def kill_all(run_id: str) -> bool:
    """End every process of this self-test, even if new ones keep appearing."""

    def none_left() -> bool:
        left = marked(run_id)
        for stat in left:
            process.send(stat.pid, signal.SIGCONT)
            process.send(stat.pid, signal.SIGKILL)
        return not left

    return wait_until(none_left, _KILL_LIMIT_S)


def wait_until(happened: Callable[[], bool], limit_s: float) -> bool:
    """Whether it happened within the limit."""
    until = time.monotonic() + limit_s
    while not happened():
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE_S)
    return True


def next_descriptor(pid: int) -> int:
    """The descriptor that the next file opened by a process will get."""
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    return next(number for number in range(len(taken) + 1) if number not in taken)


def _identity(values: dict[str, Any]) -> Identity:
    return Identity(int(values["pid"]), int(values["start_ticks"]), str(values["boot_id"]))


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
