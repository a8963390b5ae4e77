import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.waiting import wait_for

from jumar.launch.processes import probe
from jumar.launch.processes.probe import Answer, ask


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def ask_patiently(program: str, came_far: Callable[[Answer], bool]) -> Answer:
    """Of a shell that hangs: with as much time as this machine needs to come to where it does."""
    limits_s = iter((1, 5, 25, 125))
    answer = ask(["sh", "-c", program], timeout_s=next(limits_s))
    while not came_far(answer):
        answer = ask(["sh", "-c", program], timeout_s=next(limits_s))
    return answer


def is_written(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


def test_an_answer_has_code_and_both_streams():
    answer = ask(python("import sys; print('a', flush=True); sys.exit('b')"), timeout_s=180)
    assert (answer.code, answer.output.split(), answer.ok) == (1, ["a", "b"], False)


def test_the_tool_speaks_english():
    answer = ask(python("import os; print(os.environ['LC_ALL'])"), timeout_s=180)
    assert answer.output == "C\n"


def test_a_missing_tool_is_an_answer_not_an_error():
    answer = ask(["/no/such/tool"], timeout_s=1)
    assert answer.code is None
    assert "cannot run /no/such/tool" in (answer.trouble or "")


def test_a_tool_that_hangs_is_ended_with_its_children(tmp_path: Path):
    pids = tmp_path / "pids"
    program = f"trap '' TERM; sleep 600 & echo $$ $! > {pids}; wait"
    answer = ask_patiently(program, lambda _: is_written(pids))
    assert answer.code is None
    assert "in time" in (answer.trouble or "")
    # Killed at once; somebody else reaps the child.
    wait_for(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()), "both end")


def test_a_tool_that_closes_its_output_and_hangs_is_ended():
    answer = ask_patiently(
        "exec >&- 2>&-; sleep 600", lambda answer: "did not end" in (answer.trouble or "")
    )
    assert answer.code is None


def test_a_tool_that_floods_is_cut():
    answer = ask(python("while True: print('x' * 1000)"), timeout_s=180, most_bytes=50_000)
    assert answer.code is None
    assert len(answer.output) == 50_000


def test_bytes_that_are_no_text_are_kept_readable():
    answer = ask(python(r"import os; os.write(1, b'\xff\xfe ok\n')"), timeout_s=180)
    assert answer.output.endswith(" ok\n")


def test_nothing_is_left_open():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        ask(["true"], timeout_s=180)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_tool_that_cannot_be_killed_does_not_hold_the_caller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Stands for a process that is stuck in a driver, where even KILL waits."""
    pid = tmp_path / "pid"

    def nothing(group: int, number: int) -> None:
        """As if it were never delivered."""

    with monkeypatch.context() as patch:
        patch.setattr(probe.os, "killpg", nothing)
        patch.setattr(probe, "END_LIMIT_S", 0.2)
        answer = ask_patiently(f"echo $$ > {pid}; exec sleep 60", lambda _: is_written(pid))
    assert answer.code is None
    number = int(pid.read_text())
    os.kill(number, signal.SIGKILL)
    # The next question reaps it.
    wait_for(
        lambda: ask(["true"], timeout_s=180).ok and not os.path.exists(f"/proc/{number}"), "its end"
    )
