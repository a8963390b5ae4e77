"""Rows of the tables of jobs and attempts, as records and back, and as the scheduler sees them."""

import json
import sys
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Row

from jumar.engine.base import SEND_LIMIT_S
from jumar.jobs.scheduling.records import USUAL_PRIORITY, QueuedJob
from jumar.spec.array import JobArray
from jumar.spec.causes import Cause, Values
from jumar.spec.devices import LOCAL_NODE, CardRef
from jumar.spec.duration import parse_duration
from jumar.spec.job import JobSpec
from jumar.spec.records import AttemptRecord, JobRecord, JobSummary, StagingRecord, Waiting
from jumar.spec.states import AttemptState, JobState
from jumar.words.reasons import cause_sentence

T = TypeVar("T")
# Between the end of the ranks and the moment the cards are seen to be free.
_CLEAN_UP_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job as the table has it."""

    seq: int
    id: str
    user: str
    name: str
    state: JobState
    cause: str | None = None
    values: Values = field(default_factory=dict[str, str | int])
    reason: str | None = None
    engine: str
    handle: str | None = None
    spec: JobSpec
    notes: tuple[str, ...]
    created_at: float
    started_at: float | None = None
    finished_at: float | None = None
    attempt: int = 0
    not_uploaded: bool = False
    rank: int = USUAL_PRIORITY
    array_id: str | None = None
    array_index: int | None = None
    waits: bool = False
    """Queued, and not in the line yet: `jobs.dependencies` says when."""
    segment: int = 1
    stale: int = 0
    avoids: tuple[CardRef, ...] = ()
    """Cards that failed under it."""
    yields_to: str | None = None
    """The job that it makes room for: asked to end while it runs, and not started before that one."""
    preemptions: int = 0
    """How often it made room."""
    tags: tuple[str, ...] = ()
    """Not in the row: `jobs.tags` has them."""

    @property
    def is_held(self) -> bool:
        """Whether it is kept out of the line now."""
        return self.waits and self.state is JobState.QUEUED

    @property
    def array_limit(self) -> int | None:
        """How many jobs of its array may run at once."""
        return None if self.spec.array is None else JobArray.parse(self.spec.array).limit

    def summary(self) -> JobSummary:
        """The job as lists show it."""
        spec = self.spec
        asked: dict[str, Any] = {
            "device": str(spec.device),
            "nodes": spec.nodes,
            "priority": spec.priority,
            "time_limit_s": spec.time_limit,
        }
        same = {name: getattr(self, name) for name in _names(JobSummary) if name not in asked}
        return JobSummary(**same, **asked)

    def record(
        self,
        directory: Path,
        *,
        attempts: tuple[AttemptRecord, ...] = (),
        waiting: Waiting | None = None,
        staging: StagingRecord | None = None,
        trial: str | None = None,
    ) -> JobRecord:
        """All about the job as it is shown to people."""
        summary = self.summary()
        return JobRecord(
            **{name: getattr(summary, name) for name in _names(JobSummary)},
            spec=self.spec.masked(),
            attempts=attempts,
            waiting=waiting,
            directory=str(directory),
            notes=self.notes,
            staging=staging,
            trial=trial,
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """All that is not over."""

    waiting: list[JobRow]
    active: list[tuple[JobRow, AttemptRecord]]
    """Each with the attempt that is under way."""
    unsent: list[JobRow]


def job_row(row: Row[Any]) -> JobRow:
    """A row of the table; ValueError when its spec or its state is none."""
    spec, notes = JobSpec.model_validate_json(row.spec), tuple(json.loads(row.notes))
    avoids = cards_of(row.avoids) if row.avoids else ()
    made = {"state": JobState(row.state), "spec": spec, "notes": notes, "avoids": avoids}
    return _record(JobRow, row, tags=(), **made)


def job_summary(row: Row[Any], tags: tuple[str, ...] = ()) -> JobSummary:
    """A job as lists show it; of its spec only what they show is looked at."""
    made = {"state": JobState(row.state), "device": f"{row.kind}:{row.count}", "tags": tags}
    return _record(JobSummary, row, time_limit_s=_time_limit_s(row.spec), **made)


def _time_limit_s(spec: str) -> int | None:
    """A list has hundreds of rows, which take long to validate, and shows those that are damaged."""
    try:
        limit_s = parse_duration(json.loads(spec)["time_limit"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return limit_s if isinstance(limit_s, int) else None


def attempt_record(row: Row[Any]) -> AttemptRecord:
    """A row of the table of attempts."""
    state, cards = AttemptState(row.state), cards_of(row.cards)
    return _record(AttemptRecord, row, state=state, cards=cards, recovery=None, notes=())


def _record(kind: type[T], row: Row[Any], **made: Any) -> T:
    """A record of the columns that are named like its fields, apart from what was `made` of them."""
    made["values"] = json.loads(row.cause_values) if row.cause_values else {}
    return kind(**made, **{name: getattr(row, name) for name in _names(kind) if name not in made})


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


def because(cause: Cause | None, values: Values, reason: str | None = None) -> dict[str, Any]:
    """The columns that say why; without a `reason`, it is the cause in English."""
    return {
        "cause": cause,
        "cause_values": json.dumps(values, ensure_ascii=False) if values else None,
        "reason": reason or (cause_sentence(cause, values, "en") if cause else None),
    }


def cards_json(cards: tuple[CardRef, ...]) -> str:
    """Cards as the table has them."""
    nodes: dict[str, list[int]] = {}
    for card in cards:
        nodes.setdefault(card.node, []).append(card.id)
    return json.dumps(nodes)


def cards_of(text: str) -> tuple[CardRef, ...]:
    found: dict[str, list[int]] | list[int] = json.loads(text)
    # An older jumar knew one node only.
    nodes = found if isinstance(found, dict) else {LOCAL_NODE: found}
    return tuple(CardRef(node, card) for node, ids in nodes.items() for card in ids)


def queued(row: JobRow) -> QueuedJob:
    """A waiting job as the scheduler sees it."""
    return replace(
        would_be_queued(row.spec, row.user, row.engine),
        job_id=row.id,
        order=row.seq,
        grace_s=after_limit_s(row),
        rank=row.rank,
        avoids=row.avoids,
        yields_to=row.yields_to,
        since=row.created_at,
        in_line_since=row.created_at if _came_into_the_line_at_once(row) else None,
    )


def _came_into_the_line_at_once(row: JobRow) -> bool:
    """Not so: one that had cards before, or that waited for other jobs or for others of its array."""
    return not (row.attempt or row.spec.after or row.array_limit)


def would_be_queued(spec: JobSpec, user: str, engine: str) -> QueuedJob:
    """A job that is only thought of, last in the line."""
    return QueuedJob(
        job_id="",
        user=user,
        kind=spec.device.kind,
        count=spec.device.count,
        nodes=spec.nodes,
        priority=spec.priority,
        order=sys.maxsize,
        time_limit_s=spec.time_limit,
        preemptible=spec.preemptible,
        engine=engine,
    )


def after_limit_s(row: JobRow) -> float:
    """How long it may hold its cards after its time limit, which its ranks do not outlive."""
    sending_s = SEND_LIMIT_S if row.spec.sends_results else 0.0
    return sending_s + _CLEAN_UP_S
