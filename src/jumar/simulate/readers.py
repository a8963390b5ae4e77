"""Workloads in the formats that public traces have, told apart by what is in the file.

- SWF, the Standard Workload Format: 18 numbers per line, comments begin with `;`
- Philly: `cluster_job_log`, a JSON list of jobs with their attempts
- Helios: `cluster_log.csv`, with a header row
- PAI: `pai_task_table.csv`, without one; `plan_gpu` is in hundredths of a card
- what `jumar jobs --all --json` prints

Jobs without cards, without a length or never started are left out and counted."""

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from jumar.errors import BadInput
from jumar.simulate.workload import TraceJob

_MOST_BYTES = 2 << 30
_SWF_COLUMNS = 18
_PAI_COLUMNS = 10
_HELIOS = {"job_id", "user", "gpu_num", "node_num", "submit_time", "duration"}


@dataclass(frozen=True, slots=True)
class Trace:
    """What a file holds."""

    format: str
    jobs: list[TraceJob]
    left_out: int
    """What did not run on cards."""
    unended: int = 0
    """What has not started, or not ended."""
    cards: int | None = None
    """How many the machine had, where the file says that."""
    notes: tuple[str, ...] = ()


def read_trace(path: Path) -> Trace:
    """Read a workload; BadInput names the line that is wrong."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path}: larger than 2 GiB", hint="cut the trace to a few months")
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    name, read, notes = _format_of(text, path)
    jobs: list[TraceJob] = []
    left_out = unended = 0
    for where, job in _told_where(path, read(text)):
        if job is None:
            left_out += 1
        elif isinstance(job, str):
            unended += 1
        elif not _is_sound(job):
            raise BadInput(f"{path}, {where}: a number is out of range")
        else:
            jobs.append(job)
    if not jobs:
        raise BadInput(f"{path}: it has no job that ran on cards", hint="see jumar simulate --help")
    cards = _swf_cards(text) if name == "SWF" else None
    return Trace(name, jobs, left_out, unended, cards, notes)


UNENDED = "unended"
_Found = tuple[str, "TraceJob | str | None"]
"""Where in the file it is; None: not a job that ran on cards; `UNENDED`: one that has not come to its end."""


def _told_where(path: Path, found: Iterator[_Found]) -> Iterator[_Found]:
    where = "the first job"
    try:
        for each in found:
            where = f"after {each[0]}"
            yield each
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, csv.Error) as error:
        raise BadInput(f"{path}, {where}: cannot be read: {error}") from None


def _is_sound(job: TraceJob) -> bool:
    numbers = (job.submitted, job.runs_s, job.limit_s or 1.0)
    return all(map(math.isfinite, numbers)) and job.runs_s > 0 and 0 < job.cards < 1_000_000


def _format_of(
    text: str, path: Path
) -> tuple[str, Callable[[str], Iterator[_Found]], tuple[str, ...]]:
    first = next((line for line in text.splitlines() if line.strip() and line[0] != ";"), "")
    if first.lstrip()[:1] in ("[", "{"):
        loaded = _json_list(text, path)
        is_own = bool(loaded) and "created_at" in loaded[0]
        read = _own if is_own else _philly
        return "jumar" if is_own else "Philly", lambda _: read(loaded), ()
    if len(first.split()) == _SWF_COLUMNS:
        return "SWF", _swf, ()
    header = set(first.split(","))
    if header >= _HELIOS:
        return "Helios", _helios, ()
    if len(first.split(",")) == _PAI_COLUMNS:
        notes = (
            "the PAI task table has no users and no times of submission: each job is taken to be "
            "of a user of its own group name and to have come when it started",
        )
        return "PAI", _pai, notes
    raise BadInput(
        f"{path}: not a trace in SWF, Philly, Helios or PAI format, nor jumar's own list",
        hint="jumar jobs --all --json > history.json",
    )


def _json_list(text: str, path: Path) -> list[dict[str, Any]]:
    try:
        loaded: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not valid JSON: {error}") from None
    jobs = cast("list[Any]", loaded) if isinstance(loaded, list) else []
    if not jobs or not all(isinstance(job, dict) for job in jobs):
        raise BadInput(f"{path}: not a list of jobs")
    return jobs


def _lines(text: str) -> Iterator[tuple[int, str]]:
    return ((n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip())


def _swf_cards(text: str) -> int | None:
    """`; MaxProcs: 8` in the head of the file."""
    found = re.search(r"^;\s*MaxProcs:\s*([1-9]\d{0,5})\s*$", text, re.MULTILINE)
    return None if found is None else int(found[1])


def _swf(text: str) -> Iterator[_Found]:
    for number, line in _lines(text):
        if line.lstrip().startswith(";"):
            continue
        fields = [float(word) for word in line.split()]
        if len(fields) != _SWF_COLUMNS:
            raise ValueError(f"line {number} has {len(fields)} columns, not {_SWF_COLUMNS}")
        cards = fields[7] if fields[7] > 0 else fields[4]
        job = TraceJob(
            job_id=f"{number}",
            user=f"user{fields[11]:.0f}",
            submitted=fields[1],
            cards=int(cards),
            runs_s=fields[3],
            limit_s=fields[8] if fields[8] > 0 else None,
        )
        yield f"line {number}", job if job.runs_s > 0 and job.cards > 0 else None


def _philly(jobs: Iterable[Mapping[str, Any]]) -> Iterator[_Found]:
    for number, job in enumerate(jobs, 1):
        attempts = [a for a in job["attempts"] if _time(a["start_time"]) and _time(a["end_time"])]
        cards = [sum(len(each["gpus"]) for each in a.get("detail", ())) for a in attempts]
        runs_s = sum(_time(a["end_time"]) - _time(a["start_time"]) for a in attempts)
        yield (
            f"job {number}",
            TraceJob(
                job_id=f"{number}",
                user=str(job["user"]),
                submitted=_time(job["submitted_time"]),
                cards=max(cards),
                runs_s=runs_s,
                nodes=max(len(a["detail"]) for a in attempts) or None,
            )
            if attempts and max(cards) and runs_s > 0
            else None,
        )


def _helios(text: str) -> Iterator[_Found]:
    for number, row in enumerate(csv.DictReader(text.splitlines()), 2):
        cards, runs_s = int(row["gpu_num"]), float(row["duration"])
        yield (
            f"line {number}",
            TraceJob(
                job_id=f"{number}",
                user=row["user"],
                submitted=_time(row["submit_time"]),
                cards=cards,
                runs_s=runs_s,
            )
            if cards > 0 and runs_s > 0
            else None,
        )


def _pai(text: str) -> Iterator[_Found]:
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        job_name, _, instances, _, start, end, _, _, plan_gpu, _ = row
        if not (start and end and plan_gpu and instances):
            yield f"line {number}", None
            continue
        # A part of a card is a card here: jumar does not divide them.
        cards = math.ceil(float(plan_gpu) / 100) * int(float(instances))
        runs_s = float(end) - float(start)
        job = TraceJob(f"{number}", job_name[:8], float(start), cards, runs_s)
        yield f"line {number}", job if cards > 0 and runs_s > 0 else None


def _own(jobs: Iterable[Mapping[str, Any]]) -> Iterator[_Found]:
    for number, job in enumerate(jobs, 1):
        kind, _, count = str(job["device"]).partition(":")
        started, finished = job.get("started_at"), job.get("finished_at")
        nodes = int(job.get("nodes") or 1)
        if kind == "cpu" or (finished is not None and started is None):
            yield f"job {number}", None
            continue
        if started is None or finished is None:
            yield f"job {number}", UNENDED
            continue
        if finished <= started:
            yield f"job {number}", None
            continue
        limit_s = job.get("time_limit_s")
        yield (
            f"job {number}",
            TraceJob(
                job_id=str(job["id"]),
                user=str(job["user"]),
                submitted=float(job["created_at"]),
                cards=int(count or 1) * nodes,
                runs_s=float(finished) - float(started),
                # Each attempt had all of it.
                limit_s=limit_s and float(limit_s) * max(1, int(job.get("attempt") or 1)),
                nodes=nodes,
            ),
        )


def _time(text: object) -> float:
    """Seconds; 0 for what a trace leaves open."""
    if text in (None, "", "None", "null"):
        return 0.0
    moment = datetime.fromisoformat(str(text).replace(" PST", "").replace(" PDT", ""))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
