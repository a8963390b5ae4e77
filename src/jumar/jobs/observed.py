"""What an engine saw of an attempt, written down: it came further, or ended; and what its job does then.

| the attempt ended | asked by | its job |
|---|---|---|
| with 0 | nobody | has succeeded |
| with 75 | nobody | goes on with the next segment; if none is left it is `timed-out` |
| in any way | the time limit | the same |
| in any way | the platform (preempted) | goes back in line, in the same segment; no retry is used |
| in any way | a user | is stopped, whatever else was asked |
| with anything else | nobody | is tried again where that was not the script's fault (`whose`), or has retries |

A job that only measures (`measure`) has succeeded where its one segment was cut.
Two segments in a row without a new checkpoint end the job: it would go on for ever."""

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, update

from jumar.database.access import Database
from jumar.database.complaints import Complaints
from jumar.database.tables import jobs
from jumar.engine.base import Attempt, Observation
from jumar.errors import JumarError
from jumar.jobs.ledger import attempts_of, find_job, record_use, step, write_attempt
from jumar.jobs.roster import Roster
from jumar.jobs.rows import JobRow, because, cards_json
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.news import Journal
from jumar.launch.verdict import FAULTS, whose
from jumar.spec.causes import ENDED, Cause
from jumar.spec.records import AttemptRecord
from jumar.spec.states import MOST_ATTEMPTS, AttemptState, JobState, job_after
from jumar.words.reasons import retry_sentence

log = logging.getLogger(__name__)
_MOST_STALE = 2
_ASIDE_S = 60.0


def refused(attempt: Attempt, error: Exception) -> Observation:
    """The engine will never start it."""
    return Observation(
        job_id=attempt.job_id,
        number=attempt.number,
        state=AttemptState.FAILED,
        cause=Cause.START_REFUSED,
        values={"error": str(error)},
    )


def apply_observation(connection: Connection, seen: Observation, now: float) -> JobRow:
    """Write down how an attempt stands."""
    row = find_job(connection, seen.job_id)
    if row.attempt != seen.number or not row.state.is_active:
        return row
    if seen.handle is not None and seen.handle != row.handle:
        write_attempt(connection, row.seq, row.attempt, handle=seen.handle)
        handle = update(jobs).where(jobs.c.seq == row.seq).values(handle=seen.handle)
        connection.execute(handle)
    if seen.state.is_final:
        _end_attempt(connection, row, seen, now)
    elif row.state is JobState.STARTING:
        _move_on(connection, row, seen, now)
    return find_job(connection, seen.job_id)


def is_news(row: JobRow, seen: Observation) -> bool:
    """Of an attempt that is not over: whether it has come further, or waits for something else."""
    if row.state is not JobState.STARTING:
        return False
    return seen.state is AttemptState.RUNNING or (seen.cause, seen.values) != (
        row.cause,
        row.values,
    )


def _move_on(connection: Connection, row: JobRow, seen: Observation, now: float) -> None:
    """An attempt that is not over has come further."""
    why = because(seen.cause, seen.values, seen.reason)
    changes: dict[str, Any] = {"state": seen.state, **why}
    if seen.state is AttemptState.RUNNING:
        started = seen.started_at or now
        changes["started_at"] = started
        step(connection, row, JobState.RUNNING, started_at=row.started_at or started, **why)
    else:
        connection.execute(update(jobs).where(jobs.c.seq == row.seq).values(**why))
    write_attempt(connection, row.seq, row.attempt, **changes)


def _end_attempt(connection: Connection, row: JobRow, seen: Observation, now: float) -> None:
    # The engine knows only that it was asked; the job's row knows by whom.
    why = because(seen.cause, seen.values, seen.reason)
    if seen.state is AttemptState.STOPPED and row.cause == Cause.STOPPED:
        why = because(Cause.STOPPED, row.values)
    if seen.state is AttemptState.PREEMPTED and row.yields_to in set(Cause):
        cause = Cause(row.yields_to)
        why = because(cause, row.values if row.cause == cause else {})
    # Once told it stays: a launcher's own time is that of its first breath, not that of its ranks.
    began = attempts_of(connection, row.seq)[-1].started_at
    write_attempt(
        connection,
        row.seq,
        row.attempt,
        state=seen.state,
        started_at=seen.started_at if began is None else began,
        finished_at=seen.finished_at or now,
        ending_at=seen.ending_at,
        noticed_at=now,
        exit_code=seen.exit_code,
        tail=seen.tail,
        whose=None if _was_leaving(row, seen) else whose(seen.state, seen.cause, seen.tail),
        saved=seen.saved,
        advanced=seen.advanced,
        **why,
    )
    tries = attempts_of(connection, row.seq)
    # By the server's own clock, from the decision to start until the cards are free again: nothing
    # here is taken from what the job says of itself.
    owner, last = (row.spec.device.kind, row.user), tries[-1]
    record_use(connection, owner, len(last.cards), last.created_at, now)
    _end_job(connection, row, seen, now, tries)


def _end_job(
    connection: Connection,
    row: JobRow,
    seen: Observation,
    now: float,
    tries: tuple[AttemptRecord, ...],
) -> None:
    last = tries[-1]
    why = because(Cause(last.cause) if last.cause else None, last.values, last.reason)
    # A short job's end may tell better when it began than a look while it ran.
    started_at = min(filter(None, (row.started_at, seen.started_at)), default=None)
    changes: dict[str, Any] = {"started_at": started_at}
    # Of faults and segments a job can have any number, if it says each time that it came further.
    has_more = row.attempt < MOST_ATTEMPTS
    after = job_after(
        AttemptState.PREEMPTED if _was_leaving(row, seen) else seen.state,
        is_stopping=row.state is JobState.STOPPING,
        retries_left=_retries_left(row, tries) if has_more else 0,
        segments_left=has_more and row.spec.has_segment(row.segment + 1),
    )
    if seen.state is AttemptState.TIMED_OUT:
        after, why = _after_segment(row, seen, after, why, changes)
    if after is JobState.QUEUED:
        if last.whose in FAULTS:
            changes["avoids"] = cards_json(last.cards)
        said = why["reason"] or ""
        reason = retry_sentence(row.attempt, seen.state, said, "en", cause=last.cause)
        again = because(
            Cause(last.cause) if last.cause else None, {**last.values, ENDED: seen.state}, reason
        )
        step(connection, row, after, **changes, **again)
        return
    changes.update(finished_at=seen.finished_at or now, not_uploaded=seen.not_uploaded)
    step(connection, row, after, **changes, **why)


def _was_leaving(row: JobRow, seen: Observation) -> bool:
    """Whether it was killed while it made room: it would have gone back in line."""
    return seen.state is AttemptState.LOST and row.yields_to is not None


def _after_segment(
    row: JobRow,
    seen: Observation,
    after: JobState,
    why: dict[str, Any],
    changes: dict[str, Any],
) -> tuple[JobState, dict[str, Any]]:
    """A segment is over: what its job becomes, and why; `changes` are of its row."""
    if row.state is JobState.STOPPING:
        return JobState.STOPPED, because(Cause.STOPPED, row.values)
    # Where nobody could look it is not held against the job.
    stale = row.stale + 1 if seen.advanced is False else 0
    changes["stale"] = stale
    if after is JobState.QUEUED and stale >= _MOST_STALE:
        return JobState.FAILED, because(Cause.NO_PROGRESS, {"segments": stale})
    if after is JobState.QUEUED:
        changes["segment"] = row.segment + 1
    elif row.spec.measure and row.spec.segments == 1:
        return JobState.SUCCEEDED, because(Cause.MEASURED, {})
    elif row.segment > 1 or seen.cause == Cause.RUN_AGAIN:
        return after, because(Cause.SEGMENTS_USED, {"segments": row.segment})
    return after, why


def _retries_left(row: JobRow, tries: tuple[AttemptRecord, ...]) -> int:
    """How often it may still be tried after an end like that of its last attempt."""
    failed = [one for one in tries if one.whose is not None]
    if tries[-1].whose not in FAULTS:
        return row.spec.retries + 1 - len(failed)
    # Only those since it last came further: over months any machine has its faults.
    count = 0
    for one in reversed(tries):
        count += one.whose in FAULTS
        if one.advanced:
            break
    return max(row.spec.fault_retries, row.spec.retries) + 1 - count


class Notes:
    """Writes down what was seen, one by one: what cannot be costs its own job, and no other. Used by the
    conductor's thread alone."""

    def __init__(
        self,
        database: Database,
        roster: Roster,
        folder: Path,
        on_written: Callable[[JobRow], None],
    ) -> None:
        """`folder`: of all job directories."""
        self._database = database
        self._roster = roster
        self._folder = folder
        self._on_written = on_written
        self._set_aside: dict[str, float] = {}
        """Jobs whose state cannot be written down, and when that is tried again."""
        self._complaints = Complaints(log)

    def takes(self, job_id: str) -> bool:
        """Whether it makes sense to look at the job now."""
        return self._set_aside.get(job_id, 0.0) <= time.monotonic()

    def write(self, news: Iterable[Observation]) -> None:
        """Write down what was seen."""
        news, now = list(news), time.time()
        changes = [partial(apply_observation, seen=seen, now=now) for seen in news]
        outcomes = self._database.write_each(changes, then=self._roster.reflect)
        for seen, outcome in zip(news, outcomes, strict=True):
            if isinstance(outcome, JobRow):
                self._written(outcome)
            elif isinstance(outcome, JumarError) and outcome.is_passing:
                self._complaints.say(f"the state of job {seen.job_id}", outcome)
            else:
                self._put_aside(seen, outcome)

    def _written(self, row: JobRow) -> None:
        if self._complaints.said:
            self._complaints.over(f"the state of job {row.id}")
        self._set_aside.pop(row.id, None)
        log.info("job %s is %s", row.id, row.state)
        self._on_written(row)

    def _put_aside(self, seen: Observation, error: Exception) -> None:
        """Write down the bare state; where even that fails, leave the job alone for a while."""
        values = {"error": type(error).__name__}
        why = because(Cause.SET_ASIDE, values)
        log.error("job %s: %s: %s", seen.job_id, why["reason"], error)
        self._set_aside[seen.job_id] = time.monotonic() + _ASIDE_S
        Journal(JobDir(str(self._folder / seen.job_id), seen.number), seen.job_id, None).add(
            "set-aside", words=why["reason"]
        )
        bare = Observation(
            job_id=seen.job_id,
            number=seen.number,
            state=seen.state,
            cause=Cause.SET_ASIDE,
            values=values,
        )
        outcome = self._database.write_each(
            [partial(apply_observation, seen=bare, now=time.time())],
            then=self._roster.reflect,
        )[0]
        if isinstance(outcome, JobRow):
            self._written(outcome)
