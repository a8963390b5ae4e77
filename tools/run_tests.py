"""Run the tests; try what failed once more, alone: `run_tests.py [arguments of pytest]`.

A test that passes then is listed under "flaky:" with its first failure, and the run is green. More
than three failures are red without a second try, and so is a run that was not whole: interrupted,
stopped early, or with an error while collecting. Arguments choose the tests of the first run only.

This process runs pytest as a child of its own for each try, since one that has run thousands of
tests, or lost its workers, is no place to try a test alone."""

import json
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

MOST_FLAKY = 3
_CHILD = "--record-to="


@dataclass
class Record:
    """What one run of pytest showed, by the ids of its tests."""

    root: str = ""
    """Where the ids begin."""
    failures: dict[str, str] = field(default_factory=dict[str, str])
    """What the first failing phase of each said."""
    passed: list[str] = field(default_factory=list[str])
    never_ran: list[str] = field(default_factory=list[str])
    uncollected: list[str] = field(default_factory=list[str])
    """Files that could not even be read."""


@dataclass(frozen=True)
class Run:
    """How a run of pytest ended; without a record if it fell over."""

    exit_code: int
    record: Record | None


class Recorder:
    """A pytest plugin of the process that leads the run; workers of xdist report to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._record = Record()
        self._collected: dict[str, None] = {}
        self._ran: set[str] = set()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self._record.uncollected:
            self._record.uncollected.append(report.nodeid)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected.update(dict.fromkeys(item.nodeid for item in session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._collected.update(dict.fromkeys(ids))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._ran.add(report.nodeid)
        if report.failed:
            # Of a test whose call and teardown fail, the call says why.
            self._record.failures.setdefault(report.nodeid, report.longreprtext)
        elif report.passed and report.when == "call":
            self._record.passed.append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._record.root = str(session.config.rootpath)
        self._record.never_ran = [name for name in self._collected if name not in self._ran]
        self._path.write_text(json.dumps(asdict(self._record)), "utf-8")


class Runner:
    """Runs pytest as a child; signals for this process are the child's."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        # The terminal sends Ctrl-C to both; pytest decides what becomes of the run. Where it is
        # ignored, as in the background of a script, the child has to find it so.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, self._hand_on)

    def _hand_on(self, number: int, _frame: FrameType | None) -> None:
        if self._child is None:
            sys.exit(128 + number)
        self._child.send_signal(number)

    def run(self, arguments: Sequence[str], *, cwd: str | None = None) -> Run:
        with tempfile.TemporaryDirectory(prefix="run-tests-") as folder:
            path = Path(folder, "record.json")
            command = [sys.executable, __file__, f"{_CHILD}{path}", *arguments]
            with subprocess.Popen(command, cwd=cwd) as self._child:
                exit_code = self._child.wait()
            self._child = None
            return Run(exit_code, _read(path))


def _read(path: Path) -> Record | None:
    try:
        values: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return Record(**values)


def main(arguments: Sequence[str]) -> int:
    """The exit code of the run: that of pytest, but 0 if all that failed was flaky."""
    if arguments and arguments[0].startswith(_CHILD):
        recorder = Recorder(Path(arguments[0].removeprefix(_CHILD)))
        # As `python -m pytest` does; the script's own folder has nothing for the tests.
        sys.path[0] = ""
        return pytest.main([*arguments[1:]], plugins=[recorder])
    runner = Runner()
    first = runner.run(arguments)
    if first.exit_code == pytest.ExitCode.OK:
        _say("flaky: none")
        return 0
    refusal = _why_not_again(first)
    if refusal is not None or first.record is None:
        _say(f"red, nothing is tried again: {refusal}")
        return first.exit_code if first.exit_code > 0 else 128 - first.exit_code
    flaky, red = _try_again(runner, first.record)
    if flaky:
        _say(f"flaky: {len(flaky)}, passed when tried again alone; each with its first failure")
        for test, failure in flaky.items():
            _say(f"  {test}\n{textwrap.indent(failure.rstrip(), '    ')}")
    if red:
        _say(f"red: {len(red)}, not passed when tried again alone:", *(f"  {test}" for test in red))
    return 1 if red else 0


def _why_not_again(run: Run) -> str | None:
    """Why a second try would change nothing."""
    record = run.record
    if record is None:
        return "pytest fell over"
    if record.uncollected:
        return f"cannot collect {', '.join(record.uncollected)}"
    if run.exit_code != pytest.ExitCode.TESTS_FAILED or not record.failures:
        return f"pytest ended with {run.exit_code}"
    if record.never_ran:
        return f"{len(record.never_ran)} tests never ran"
    if len(record.failures) > MOST_FLAKY:
        return f"{len(record.failures)} failed, {MOST_FLAKY} at most may be flaky"
    return None


def _try_again(runner: Runner, record: Record) -> tuple[dict[str, str], list[str]]:
    """What passed, with its first failure, and what did not."""
    flaky: dict[str, str] = {}
    red: list[str] = []
    for test, failure in record.failures.items():
        _say(f"again, alone: {test}")
        again = runner.run([test], cwd=record.root)
        seen = again.record
        if again.exit_code == pytest.ExitCode.OK and seen is not None and test in seen.passed:
            flaky[test] = failure
        else:
            red.append(test)
        if again.exit_code == pytest.ExitCode.INTERRUPTED:
            break
    return flaky, red


def _say(*lines: str) -> None:
    # A failure may quote what the terminal cannot show.
    sys.stdout.buffer.write(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
