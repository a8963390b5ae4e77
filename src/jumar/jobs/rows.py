"""Rows of the tables of jobs and attempts, as records and back."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sqlalchemy import Row

from jumar.jobs.scheduling.records import USUAL_PRIORITY
from jumar.spec.causes import Cause, Values
from jumar.spec.devices import LOCAL_NODE, CardRef
from jumar.spec.job import JobSpec
from jumar.spec.records import AttemptRecord, JobRecord, JobSummary, StagingRecord, Waiting
from jumar.spec.states import AttemptState, JobState
from jumar.words.reasons import cause_sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job as the table has it."""

    seq: int
    id: str
    user: str
    name: str
    state: JobState
    cause: str | None
    values: Values
    reason: str | None
    engine: str
    handle: str | None
    spec: JobSpec
    notes: tuple[str, ...]
    created_at: float
    started_at: float | None
    finished_at: float | None
    attempt: int
    not_uploaded: bool = False
    rank: int = USUAL_PRIORITY

    def summary(self) -> JobSummary:
        """The job as lists show it."""
        return JobSummary(
            id=self.id,
            name=self.name,
            user=self.user,
            state=self.state,
            device=str(self.spec.device),
            nodes=self.spec.nodes,
            priority=self.spec.priority,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            engine=self.engine,
            cause=self.cause,
            values=self.values,
            reason=self.reason,
            attempt=self.attempt,
            not_uploaded=self.not_uploaded,
        )

    def record(
        self,
        *,
        attempts: tuple[AttemptRecord, ...],
        waiting: Waiting | None,
        directory: Path,
        staging: StagingRecord | None,
        trial: str | None,
    ) -> JobRecord:
        """All about the job as it is shown to people."""
        summary = self.summary()
        return JobRecord(
            **{field.name: getattr(summary, field.name) for field in fields(summary)},
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
    return JobRow(
        seq=row.seq,
        id=row.id,
        user=row.user,
        name=row.name,
        state=JobState(row.state),
        cause=row.cause,
        values=values_of(row),
        reason=row.reason,
        engine=row.engine,
        handle=row.handle,
        spec=JobSpec.model_validate_json(row.spec),
        notes=tuple(json.loads(row.notes)),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        attempt=row.attempt,
        not_uploaded=row.not_uploaded,
        rank=row.rank,
    )


def attempt_record(row: Row[Any]) -> AttemptRecord:
    """A row of the table of attempts."""
    return AttemptRecord(
        number=row.number,
        state=AttemptState(row.state),
        engine=row.engine,
        handle=row.handle,
        segment=row.segment,
        cards=cards_of(row.cards),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        exit_code=row.exit_code,
        cause=row.cause,
        values=values_of(row),
        reason=row.reason,
        tail=row.tail,
    )


def because(cause: Cause | None, values: Values, reason: str | None = None) -> dict[str, Any]:
    """The columns that say why; without a `reason`, it is the cause in English."""
    return {
        "cause": cause,
        "cause_values": json.dumps(values, ensure_ascii=False) if values else None,
        "reason": reason or cause_sentence(cause, values, "en"),
    }


def values_of(row: Row[Any]) -> dict[str, str | int]:
    """The values of a row's cause."""
    return json.loads(row.cause_values) if row.cause_values else {}


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
