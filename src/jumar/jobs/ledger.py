"""What is written about jobs: each function is one question to, or one change of, the tables.

Changes take the connection of a running transaction; every change of state passes `step`."""

import json
import secrets
import string
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, select, update

from jumar.database.access import Database
from jumar.database.tables import attempts, card_use, job_tags, jobs
from jumar.errors import JobEnded, JobNotFound, KeyReused, TooManyJobs
from jumar.jobs.rows import JobRow, Standing, attempt_record, because, cards_json, job_row
from jumar.jobs.scheduling.records import USUAL_PRIORITY
from jumar.jobs.scheduling.use import Owner, PastUse, by_day
from jumar.spec.array import JobArray
from jumar.spec.causes import Cause, Values
from jumar.spec.devices import CardRef
from jumar.spec.job import JobSpec
from jumar.spec.records import AttemptRecord
from jumar.spec.states import ACTIVE, AttemptState, JobState, check_step

# Made once: putting a statement together costs more than running it.
_ADD_JOB = insert(jobs).returning(jobs.c.seq)
_JOB_OF_KEY = select(jobs).where(
    jobs.c.user == bindparam("user"), jobs.c.submit_key == bindparam("key")
)
_WAITING_OF_USER = select(func.count()).where(
    jobs.c.user == bindparam("user"), jobs.c.state == JobState.QUEUED
)

ID_LENGTH = 10


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
    engine: str = "local",
    place: "ArrayPlace | None" = None,
    together: int = 1,
) -> tuple[JobRow, bool]:
    """Put a job in line. The same key from the same user is the same job: (row, whether new);
    KeyReused where it was another one.

    `queue_limit`: how many jobs of one user may wait; counted in the transaction that adds this one,
    so that submits at the same time cannot get past it together. `together`: how many come with this one,
    itself included. `job_id`: of a job that had its name
    before, and was lost."""
    if key is not None:
        known = connection.execute(_JOB_OF_KEY, {"user": user, "key": key}).first()
        if known is not None:
            return _same_job(job_row(known), spec, engine, key), False
    if queue_limit is not None:
        _check_queue(connection, user, queue_limit, together)
    place = place or ArrayPlace()
    row = JobRow(
        seq=0,
        id=job_id or new_id(),
        user=user,
        name=spec.name,
        state=JobState.QUEUED,
        engine=engine,
        spec=spec,
        notes=notes,
        created_at=now,
        rank=rank,
        array_id=place.array_id,
        array_index=place.index,
        waits=bool(spec.after) or not place.is_first,
    )
    values = {
        "id": row.id,
        "user": user,
        "submit_key": key,
        "name": spec.name,
        "state": row.state,
        "engine": engine,
        "spec": json.dumps(spec.dump(), ensure_ascii=False),
        "notes": json.dumps(notes, ensure_ascii=False),
        "kind": spec.device.kind,
        "count": spec.device.count,
        "nodes": spec.nodes,
        "priority": spec.priority,
        "rank": rank,
        "created_at": now,
        "attempt": row.attempt,
        "array_id": row.array_id,
        "array_index": row.array_index,
        "waits": row.waits,
    }
    return replace(row, seq=connection.execute(_ADD_JOB, values).scalar_one()), True


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """Where a job stands in its array; by default it is in none."""

    array_id: str | None = None
    index: int | None = None
    is_first: bool = True
    """Whether it is among those that may run before others have ended."""


def insert_array(
    connection: Connection, array: JobArray, spec: JobSpec, **given: Any
) -> tuple[list[JobRow], bool]:
    """Put a job for each index in line, all or none. The key is the first one's."""
    array_id = new_id()
    made: list[JobRow] = []
    given = {**given, "together": len(array.indices)}
    for number, index in enumerate(array.indices):
        place = ArrayPlace(array_id, index, array.limit is None or number < array.limit)
        own = spec.model_copy(update={"array": array.element(index)})
        row, is_new = insert_job(connection, spec=own, place=place, **given)
        if not is_new:
            return [row], False
        made.append(row)
        given.update(key=None, queue_limit=None)
    return made, True


def _same_job(known: JobRow, spec: JobSpec, engine: str, key: str) -> JobRow:
    """The job of this key, if it is the one that is submitted now: whoever gets another job than the one
    they asked for must hear of it."""
    # A name may mean another job by now: that the same number of them is named is enough.
    again = spec.model_copy(update={"after": known.spec.after})
    is_same = known.spec.dump() == again.dump() and known.engine == engine
    if not is_same or len(known.spec.after) != len(spec.after):
        raise KeyReused(
            f"the idempotency key {key!r} belongs to job {known.id}, which was submitted differently",
            hint="use a new key for a new job; send a retry unchanged",
        )
    return known


def _check_queue(connection: Connection, user: str, limit: int, more: int) -> None:
    waiting = connection.execute(_WAITING_OF_USER, {"user": user}).scalar_one()
    if waiting + more > limit:
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
    waiting = _rows(connection, jobs.c.state == JobState.QUEUED)
    return Standing(waiting, active_jobs(connection), _rows(connection, jobs.c.not_uploaded))


def active_jobs(connection: Connection) -> list[tuple[JobRow, AttemptRecord]]:
    """All with an attempt under way, each with that attempt."""
    found = _rows(connection, jobs.c.state.in_(ACTIVE))
    return [(row, attempts_of(connection, row.seq)[-1]) for row in found]


def _rows(connection: Connection, which: ColumnElement[bool]) -> list[JobRow]:
    return [job_row(row) for row in connection.execute(select(jobs).where(which)).all()]


def unfinished_of_array(connection: Connection, array_id: str) -> list[JobRow]:
    """The jobs of an array that have not ended."""
    open_states = [str(state) for state in JobState if not state.is_final]
    return _rows(connection, (jobs.c.array_id == array_id) & jobs.c.state.in_(open_states))


def stop_waiting(connection: Connection, row: JobRow, now: float, why: dict[str, Any]) -> JobRow:
    """A job that was never in the line ends."""
    step(connection, row, JobState.STOPPED, finished_at=now, **why)
    return find_job(connection, row.id)


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
    connection.execute(delete(job_tags).where(job_tags.c.job_id == job_id))
    connection.execute(delete(jobs).where(jobs.c.id == job_id))


def attempts_of(connection: Connection, seq: int) -> tuple[AttemptRecord, ...]:
    """The attempts of one job, oldest first."""
    query = select(attempts).where(attempts.c.job_seq == seq).order_by(attempts.c.number)
    return tuple(attempt_record(row) for row in connection.execute(query))


def start_attempt(
    connection: Connection, job_id: str, cards: tuple[CardRef, ...], now: float
) -> JobRow | None:
    """Take a job out of the line for its next attempt; None if it no longer waits."""
    row = find_job(connection, job_id)
    if row.state is not JobState.QUEUED or row.is_held:
        return None
    number = row.attempt + 1
    step(
        connection,
        row,
        JobState.STARTING,
        attempt=number,
        handle=None,
        yields_to=None,
        **because(None, {}, None),
    )
    connection.execute(
        insert(attempts).values(
            job_seq=row.seq,
            number=number,
            state=AttemptState.STARTING,
            engine=row.engine,
            segment=row.segment,
            cards=cards_json(cards),
            created_at=now,
        )
    )
    return find_job(connection, job_id)


def ask_to_yield(connection: Connection, job_id: str, head: str, why: str = "") -> JobRow | None:
    """Have a running job make room for `head`; None if it is no longer under way, or leaves already.

    `head` is a job, or the cause of a drain, whose reason is `why`."""
    row = find_job(connection, job_id)
    if row.state not in (JobState.STARTING, JobState.RUNNING) or row.yields_to is not None:
        return None
    count = row.preemptions + 1
    changes: dict[str, Any] = {"yields_to": head, "preemptions": count}
    # Of one that starts, the cause says what it still waits for.
    if head in set(Cause) and row.state is JobState.RUNNING:
        values = {"why": why} if why and head == Cause.MAINTENANCE else {}
        changes.update(because(Cause(head), values))
    connection.execute(update(jobs).where(jobs.c.seq == row.seq).values(**changes))
    return find_job(connection, job_id)


def ask_to_stop(
    connection: Connection, job_id: str, now: float, values: Values | None = None
) -> JobRow:
    """A waiting job is stopped at once, an active one becomes `stopping`; twice is once.

    `values` of the cause `stopped`: who wants it, and why."""
    row, values = find_job(connection, job_id), values or {}
    if row.state is JobState.QUEUED:
        cause = Cause.STOPPED if row.attempt else Cause.STOPPED_WAITING
        why = because(cause, values)
        step(connection, row, JobState.STOPPED, finished_at=now, **why)
    elif row.state not in (JobState.STOPPING, JobState.STOPPED):
        step(connection, row, JobState.STOPPING, **because(Cause.STOPPED, values))
        write_attempt(connection, row.seq, row.attempt, state=AttemptState.STOPPING)
    return find_job(connection, job_id)


def set_priority(connection: Connection, job_id: str, priority: int, *, ranked: bool) -> JobRow:
    """Give a job that has not ended another priority; JobEnded."""
    row = find_job(connection, job_id)
    if row.state.is_final:
        raise JobEnded(f"job {row.id} has ended", hint="its priority orders nothing any more")
    spec = row.spec.model_copy(update={"priority": priority})
    values = {"spec": json.dumps(spec.dump(), ensure_ascii=False), "priority": priority}
    if ranked:
        values["rank"] = priority
    connection.execute(update(jobs).where(jobs.c.seq == row.seq).values(values))
    return find_job(connection, job_id)


def step(connection: Connection, row: JobRow, after: JobState, **changes: Any) -> None:
    """Bring a job into another state, with what changes along with that."""
    check_step(row.id, row.state, after)
    connection.execute(update(jobs).where(jobs.c.seq == row.seq).values(state=after, **changes))


def write_attempt(connection: Connection, seq: int, number: int, **changes: Any) -> None:
    """Change what is written of one attempt."""
    match = attempts.c.job_seq == seq, attempts.c.number == number
    connection.execute(update(attempts).where(*match).values(**changes))


def record_use(
    connection: Connection, owner: Owner, cards: int, since: float, until: float
) -> None:
    """Add what an ended attempt held to what its user has used: card-seconds by user, kind and day.

    In the transaction that ends the attempt, so nothing is counted twice or lost."""
    kind, user = owner
    for day, card_s in by_day(cards, since, until):
        values = {"user": user, "kind": kind, "day": day}
        match = (card_use.c[name] == value for name, value in values.items())
        more = update(card_use).where(*match).values(card_s=card_use.c.card_s + card_s)
        if connection.execute(more).rowcount == 0:
            connection.execute(insert(card_use).values(**values, card_s=card_s))


def use_since(connection: Connection, day: int) -> dict[Owner, float]:
    """Card-seconds of attempts that have ended, by kind and user, from that day on."""
    total = func.sum(card_use.c.card_s)
    query = select(card_use.c.kind, card_use.c.user, total).where(card_use.c.day >= day)
    rows = connection.execute(query.group_by(card_use.c.kind, card_use.c.user))
    return {(row[0], row[1]): float(row[2]) for row in rows}


def load_use(database: Database, half_life_s: float, now: float) -> PastUse:
    """What everybody has used, as far as it still matters; what no longer does is forgotten."""
    past = PastUse(half_life_s)
    too_old = card_use.c.day < past.oldest_day(now)
    database.write(lambda connection: connection.execute(delete(card_use).where(too_old)))
    with database.read() as connection:
        for row in connection.execute(select(card_use)):
            past.add_day((row.kind, row.user), row.day, row.card_s)
    return past
