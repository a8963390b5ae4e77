"""The program that every job of a self-test runs, as a single file.

It records outside the home what really ran: one line in the ledger when it begins and one when it
ends, and a lock on each card it was given. A lock is shared by the process and everything it has
started, so whoever finds one taken has found a process that should be gone."""

import errno
import fcntl
import json
import os
import sys
import time
from collections.abc import Mapping

DISK_FULL = 28
_SLEEP_S = 600.0
_CHILD_S = 3.0
_OVER_LIMIT_S = 60.0


def main() -> int:
    """One rank of one attempt."""
    folder, kind, lines, pause_ms = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    attempt, rank = int(os.environ["JUMAR_ATTEMPT"]), int(os.environ.get("RANK", "0"))
    me = {"job": os.environ["JUMAR_JOB_ID"], "attempt": attempt, "rank": rank}
    ledger = os.open(os.path.join(folder, "ledger"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    cards = _cards(rank)
    taken = _take(os.path.join(folder, "locks"), [f"job-{me['job']}-{rank}", *cards])
    _tell(ledger, me, "begin", cards=cards, taken=taken)
    try:
        _write_lines(me, lines, pause_ms)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _tell(ledger, me, "disk-full")
        return DISK_FULL
    code = _rest(kind, attempt)
    _tell(ledger, me, "end", code=code)
    return code


def _cards(rank: int) -> list[str]:
    """What this rank was given, as the launcher was told."""
    attempt = os.path.join(os.environ["JUMAR_JOB_DIR"], "attempts", os.environ["JUMAR_ATTEMPT"])
    with open(os.path.join(attempt, "request.json"), encoding="utf-8") as file:
        numbers = sorted(json.load(file)["cards"])
    with open(os.path.join(os.environ["JUMAR_JOB_DIR"], "job.json"), encoding="utf-8") as file:
        job = json.load(file)
    own = [numbers[rank]] if job["ranks"] == "device" else numbers
    return [f"{job['device']['kind']}-{number}" for number in own]


def _take(folder: str, names: list[str]) -> list[str]:
    """Lock each name for as long as this process or a child of it lives; those that others hold."""
    held: list[str] = []
    for name in names:
        handle = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT, 0o600)
        os.set_inheritable(handle, True)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.append(name)
    return held


def _tell(ledger: int, me: Mapping[str, object], event: str, **details: object) -> None:
    # One write at the end of the file: lines of several processes never mix.
    line = {"event": event, **me, "pid": os.getpid(), **details}
    os.write(ledger, json.dumps(line).encode() + b"\n")


def _write_lines(me: Mapping[str, object], lines: int, pause_ms: int) -> None:
    for number in range(1, lines + 1):
        text = f"<{me['job']} {me['attempt']} {me['rank']} {number}/{lines}>\n".encode()
        while text:
            text = text[os.write(1, text) :]
        time.sleep(pause_ms / 1000)


def _rest(kind: str, attempt: int) -> int:
    if kind == "stopped":
        _leave_child(_SLEEP_S)
        time.sleep(_SLEEP_S)
    elif kind == "timed":
        time.sleep(_OVER_LIMIT_S)
    elif kind == "children":
        _leave_child(_CHILD_S)
    failing = kind == "fails" or (kind == "flaky" and attempt == 1)
    return 3 if failing else 0


def _leave_child(seconds: float) -> None:
    """A process that has detached itself from the job, like a daemon."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(seconds)
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
