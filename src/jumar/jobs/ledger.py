"""What is written about jobs: each function is one question to, or one change of, the tables.

Changes take the connection of a running transaction; every change of state passes `_step`."""

import json
import secrets
import string
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update

from jumar.database.tables import attempts, jobs
from jumar.engine.base import Observation
from jumar.errors import JobNotFound, TooManyJobs
from jumar.jobs import use
from jumar.jobs.lifecycle import check_step
from jumar.jobs.scheduling.records import USUAL_PRIORITY
from jumar.spec.job import JobSpec
from jumar.spec.records import AttemptRecord, JobRecord, JobSummary, StagingRecord, Waiting
from jumar.spec.states import ACTIVE, JobState

# Made once: putting a statement together costs more than running it.
_ADD_JOB = insert(jobs).returning(jobs.c.seq)
_JOB_OF_KEY = select(jobs).where(
    jobs.c.user == bindparam("user"), jobs.c.submit_key == bindparam("key")
)
_WAITING_OF_USER = select(func.count()).where(
    jobs.c.user == bindparam("user"), jobs.c.state == JobState.QUEUED
)

ID_LENGTH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job as the table has it."""

    seq: int
    id: str
    user: str
    name: str
    state: JobState
    reason: str | None
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
    """Each with the attempt that holds cards."""
    unsent: list[JobRow]


def new_id() -> str:
    """A name for a job that nobody can guess the next of, and that is never a number."""
    first = secrets.choice(string.ascii_lowercase)
    alphabet = string.ascii_lowercase + string.digits
    return first + "".join(secrets.choice(alphabet) for _ in range(ID_LENGTH - 1))


def insert_job(
    connection: Connection,
    *,
    user: str,
    spec: JobSpec,
    notes: tuple[str, ...],
    key: str | None,
    now: float,
    rank: int = USUAL_PRIORITY,
    queue_limit: int | None = None,
    job_id: str | None = None,
) -> tuple[JobRow, bool]:
    """Put a job in line. The same key from the same user is the same job: (row, whether new).

    `queue_limit`: how many jobs of one user may wait; counted in the transaction that adds this one,
    so that submits at the same time cannot get past it together. `job_id`: of a job that had its name
    before, and was lost."""
    if key is not None:
        known = connection.execute(_JOB_OF_KEY, {"user": user, "key": key}).first()
        if known is not None:
            return job_row(known), False
    if queue_limit is not None:
        _check_queue(connection, user, queue_limit)
    row = JobRow(
        seq=0,
        id=job_id or new_id(),
        user=user,
        name=spec.name,
        state=JobState.QUEUED,
        reason=None,
        spec=spec,
        notes=notes,
        created_at=now,
        started_at=None,
        finished_at=None,
        attempt=0,
        rank=rank,
    )
    values = {
        "id": row.id,
        "user": user,
        "submit_key": key,
        "name": spec.name,
        "state": row.state,
        "spec": json.dumps(spec.dump(), ensure_ascii=False),
        "notes": json.dumps(notes, ensure_ascii=False),
        "kind": spec.device.kind,
        "count": spec.device.count,
        "nodes": spec.nodes,
        "priority": spec.priority,
        "rank": rank,
        "created_at": now,
        "attempt": row.attempt,
    }
    return replace(row, seq=connection.execute(_ADD_JOB, values).scalar_one()), True


def _check_queue(connection: Connection, user: str, limit: int) -> None:
    waiting = connection.execute(_WAITING_OF_USER, {"user": user}).scalar_one()
    if waiting >= limit:
        raise TooManyJobs(
            f"{user} has {waiting} jobs waiting, and one user may have {limit}",
            hint="wait until some have started, or stop some; an administrator raises JUMAR_QUEUE_LIMIT",
        )


def find_job(connection: Connection, job_id: str) -> JobRow:
    """The job with just this id; `naming` knows which one somebody means."""
    row = connection.execute(select(jobs).where(jobs.c.id == job_id)).first()
    if row is None:
        raise JobNotFound(f"no job {job_id[:64]!r}", hint="list them with: jumar jobs --all")
    return job_row(row)


def standing(connection: Connection) -> Standing:
    """What a server that starts has to know."""
    return Standing(queued_jobs(connection), active_jobs(connection), unsent_jobs(connection))


def queued_jobs(connection: Connection) -> list[JobRow]:
    """All that wait, in no special order."""
    rows = connection.execute(select(jobs).where(jobs.c.state == JobState.QUEUED))
    return [job_row(row) for row in rows]


def active_jobs(connection: Connection) -> list[tuple[JobRow, AttemptRecord]]:
    """All that hold cards, each with the attempt that does."""
    rows = connection.execute(select(jobs).where(jobs.c.state.in_(ACTIVE))).all()
    found = [job_row(row) for row in rows]
    return [(row, attempts_of(connection, row.seq)[-1]) for row in found]


def unsent_jobs(connection: Connection) -> list[JobRow]:
    """All that have ended and whose results are not uploaded."""
    rows = connection.execute(select(jobs).where(jobs.c.not_uploaded))
    return [job_row(row) for row in rows]


def results_arrived(connection: Connection, job_id: str) -> JobRow:
    """The job's results are where they belong."""
    connection.execute(update(jobs).where(jobs.c.id == job_id).values(not_uploaded=False))
    return find_job(connection, job_id)


def has_job(connection: Connection, job_id: str) -> bool:
    """Whether a job with just this id is written down."""
    return connection.execute(select(jobs.c.seq).where(jobs.c.id == job_id)).first() is not None


def delete_job(connection: Connection, job_id: str) -> None:
    """Forget a job and its attempts."""
    seq = select(jobs.c.seq).where(jobs.c.id == job_id).scalar_subquery()
    connection.execute(delete(attempts).where(attempts.c.job_seq == seq))
    connection.execute(delete(jobs).where(jobs.c.id == job_id))


def attempts_of(connection: Connection, seq: int) -> tuple[AttemptRecord, ...]:
    """The attempts of one job, oldest first."""
    query = select(attempts).where(attempts.c.job_seq == seq).order_by(attempts.c.number)
    return tuple(_attempt_record(row) for row in connection.execute(query))


def start_attempt(
    connection: Connection, job_id: str, cards: tuple[int, ...], now: float
) -> JobRow | None:
    """Take a job out of the line for its next attempt; None if it no longer waits."""
    row = find_job(connection, job_id)
    if row.state is not JobState.QUEUED:
        return None
    number = row.attempt + 1
    _step(connection, row, JobState.STARTING, attempt=number, reason=None)
    connection.execute(
        insert(attempts).values(
            job_seq=row.seq,
            number=number,
            state=JobState.STARTING,
            cards=json.dumps(cards),
            created_at=now,
        )
    )
    return find_job(connection, job_id)


def ask_to_stop(connection: Connection, job_id: str, now: float) -> JobRow:
    """A waiting job is stopped at once, an active one becomes `stopping`; twice is once."""
    row = find_job(connection, job_id)
    if row.state is JobState.QUEUED:
        _step(connection, row, JobState.STOPPED, finished_at=now, reason="stopped while it waited")
    elif row.state not in (JobState.STOPPING, JobState.STOPPED):
        _step(connection, row, JobState.STOPPING)
        _write_attempt(connection, row.seq, row.attempt, state=JobState.STOPPING)
    return find_job(connection, job_id)


def apply_observation(connection: Connection, seen: Observation, now: float) -> JobRow:
    """Write down how an attempt stands; a failed one with retries left goes back in line."""
    row = find_job(connection, seen.job_id)
    if row.attempt != seen.number or not row.state.is_active:
        return row
    if not seen.state.is_final:
        if row.state is JobState.STARTING and seen.state is JobState.RUNNING:
            started = seen.started_at or now
            _step(connection, row, JobState.RUNNING, started_at=row.started_at or started)
            _write_attempt(
                connection, row.seq, row.attempt, state=JobState.RUNNING, started_at=started
            )
        return find_job(connection, seen.job_id)
    _write_attempt(
        connection,
        row.seq,
        row.attempt,
        state=seen.state,
        started_at=seen.started_at,
        finished_at=seen.finished_at or now,
        exit_code=seen.exit_code,
        reason=seen.reason,
        tail=seen.tail,
    )
    _charge(connection, row, now)
    _end_job(connection, row, seen, now)
    return find_job(connection, seen.job_id)


def _charge(connection: Connection, row: JobRow, now: float) -> None:
    # By the server's own clock, from the decision to start until the cards are free again: nothing
    # here is taken from what the job says of itself.
    attempt = attempts_of(connection, row.seq)[-1]
    owner = (row.spec.device.kind, row.user)
    use.record(connection, owner, len(attempt.cards), attempt.created_at, now)


def _end_job(connection: Connection, row: JobRow, seen: Observation, now: float) -> None:
    # A short job's end may tell better when it began than a look while it ran.
    started_at = min(filter(None, (row.started_at, seen.started_at)), default=None)
    wants_another = seen.state in (JobState.FAILED, JobState.LOST)
    if wants_another and row.state is not JobState.STOPPING and row.attempt <= row.spec.retries:
        reason = f"attempt {row.attempt} {seen.state}: {seen.reason}; it will be tried again"
        _step(connection, row, JobState.QUEUED, reason=reason, started_at=started_at)
        return
    _step(
        connection,
        row,
        seen.state,
        reason=seen.reason,
        started_at=started_at,
        finished_at=seen.finished_at or now,
        not_uploaded=seen.not_uploaded,
    )


def _step(connection: Connection, row: JobRow, after: JobState, **changes: Any) -> None:
    check_step(row.id, row.state, after)
    connection.execute(update(jobs).where(jobs.c.seq == row.seq).values(state=after, **changes))


def _write_attempt(connection: Connection, seq: int, number: int, **changes: Any) -> None:
    match = attempts.c.job_seq == seq, attempts.c.number == number
    connection.execute(update(attempts).where(*match).values(**changes))


def job_row(row: Row[Any]) -> JobRow:
    """A row of the table; ValueError when its spec or its state is none."""
    return JobRow(
        seq=row.seq,
        id=row.id,
        user=row.user,
        name=row.name,
        state=JobState(row.state),
        reason=row.reason,
        spec=JobSpec.model_validate_json(row.spec),
        notes=tuple(json.loads(row.notes)),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        attempt=row.attempt,
        not_uploaded=row.not_uploaded,
        rank=row.rank,
    )


def _attempt_record(row: Row[Any]) -> AttemptRecord:
    return AttemptRecord(
        number=row.number,
        state=JobState(row.state),
        cards=tuple(json.loads(row.cards)),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        exit_code=row.exit_code,
        reason=row.reason,
        tail=row.tail,
    )
