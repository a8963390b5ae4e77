"""Reads the notes of a run's processes (`inject/start_path`) into the record to compare."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from jumar.port.proof_runs import Failure, Kind, Mark, RunResult
from jumar.trial.process import Ended

_TAIL_LINES = 20
_KINDS = frozenset(Kind)
_TRACEBACK = "Traceback (most recent call last)"
_QUOTED_BY_PYTEST = re.compile(r"^E {2,}(\w+(?:Error|Exception|Interrupt)\b.*)$", re.MULTILINE)
"""A test file that does not import: no test ran, so none was noted."""


@dataclass
class _Process:
    """The notes of one process."""

    rank: int = 0
    marks: list[Mark] = field(default_factory=list[Mark])
    used: set[str] = field(default_factory=set[str])
    error: Failure | None = None
    tests: dict[str, bool] = field(default_factory=dict[str, bool])
    cut: bool = False


def read_run(
    notes: Path, root: Path, ended: Ended, *, device: str, command: tuple[str, ...], output: Path
) -> RunResult:
    """What a run of the source in `root` recorded."""
    # Their names begin with the time at which a process had something to note.
    paths = sorted(notes.glob("*.jsonl"), key=lambda path: int(path.stem.partition("-")[0]))
    processes = [_read(path, root) for path in paths]
    cut = ended.stopped or any(process.cut for process in processes)
    failure = None
    if ended.code and not cut:
        errors = [process.error for process in processes if process.error is not None]
        failure = _failure(errors, ended.code, _tail(output, root))
    return RunResult(
        device=device,
        command=command,
        ranks=_by_rank(processes),
        used=frozenset(kind for process in processes for kind in process.used),
        cut=cut,
        tests=_tests(processes),
        failure=failure,
        seconds=ended.seconds,
    )


def events_so_far(notes: Path, kind: str) -> int:
    """How many events of a kind the busiest process of a run has noted by now."""
    sign = f'"kind": "{kind}"'
    return max((path.read_text("utf-8").count(sign) for path in notes.glob("*.jsonl")), default=0)


def _tests(processes: list[_Process]) -> dict[str, bool]:
    """Workers note their tests, and so does the process that started them."""
    tests: dict[str, bool] = {}
    for process in processes:
        for name, passed in process.tests.items():
            tests[name] = passed and tests.get(name, True)
    return tests


def _by_rank(processes: list[_Process]) -> tuple[tuple[Mark, ...], ...]:
    """The marks of each process that trained: by rank, then in the order in which they started."""
    return tuple(
        tuple(_in_order(process.marks))
        for process in sorted(processes, key=lambda each: each.rank)
        if any(mark.kind is not Kind.OUTPUT for mark in process.marks)
    )


def _in_order(marks: list[Mark]) -> Iterator[Mark]:
    """The parameters of a step by name: an optimizer may have got them from a set."""
    for kind, group in groupby(marks, key=lambda mark: mark.kind):
        same = list(group)
        yield from sorted(same, key=lambda mark: mark.what) if kind is Kind.PARAMETER else same


def _read(path: Path, root: Path) -> _Process:
    process = _Process()
    for line in path.read_text("utf-8").splitlines():
        try:
            note: dict[str, Any] = json.loads(line)
        except ValueError:
            # The last line of a process that was killed while writing.
            break
        _take(process, note, root)
    return process


def _take(process: _Process, note: dict[str, Any], root: Path) -> None:
    where: str = note["where"]
    source = _source_line(root, where)
    process.rank = note["rank"]
    if note["kind"] in _KINDS:
        values = tuple(float(value) for value in note.get("values", ()))
        mark = Mark(Kind(note["kind"]), note["what"], values, note.get("digest", ""), where, source)
        process.marks.append(mark)
        if "device" in note:
            process.used.add(note["device"].partition(":")[0])
    elif note["kind"] == "test":
        # Setup and teardown are only noted where they did not pass.
        passed = note["outcome"] == "passed"
        process.tests[note["what"]] = passed and process.tests.get(note["what"], True)
    elif note["kind"] == "error":
        process.error = _error(note, where, root)
    else:
        process.cut = True


def _error(note: dict[str, Any], where: str, root: Path) -> Failure:
    message: str = note["message"].strip()
    what = f"{note['what']}: {message}"
    if _TRACEBACK in message:
        # A parent may quote its child's traceback: the child's error is what counts.
        what = message.rpartition("\n")[2]
        inside = re.findall(rf'File "{re.escape(str(root))}/([^"\n]+)", line (\d+)', message)
        where = ":".join(inside[-1]) if inside else where
    return Failure(what.replace(f"{root}/", ""), where, _source_line(root, where))


def _source_line(root: Path, where: str) -> str:
    file, _, number = where.rpartition(":")
    lines = _lines(root / file) if file else []
    return lines[int(number) - 1].strip() if 0 < int(number or 0) <= len(lines) else ""


@cache
def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", errors="replace").split("\n")
    except OSError:
        return []


def _tail(output: Path, root: Path) -> str:
    """The last lines, with paths as they are in the source."""
    lines = output.read_text("utf-8", errors="replace").rstrip("\n").split("\n")
    return "\n".join(lines[-_TAIL_LINES:]).replace(f"{root}/", "")


def _failure(errors: list[Failure], code: int, tail: str) -> Failure:
    # The innermost known place says most: a parent only reports that a child failed.
    known = next((error for error in errors if error.where), errors[0] if errors else None)
    if known is None:
        quoted = _QUOTED_BY_PYTEST.search(tail)
        return Failure(quoted[1] if quoted else f"exit code {code}", tail=tail)
    return Failure(known.what, known.where, known.source, tail)
