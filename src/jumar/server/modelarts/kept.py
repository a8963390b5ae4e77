"""What is written down for clients of ModelArts: what they asked for, and what they were answered."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from jumar.database.access import Database
from jumar.database.tables import jobs, modelarts_answers, modelarts_jobs
from jumar.errors import JobNotFound
from jumar.modelarts.told import Asked

ANSWERS_S = 30 * 60.0
"""How long an answer is kept: longer than a signature is good for."""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What a request was answered."""

    status: int
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptJob:
    """What is known of a job beside its own record."""

    job_id: str
    project: str
    asked: Asked
    series: int | None = None
    version: int | None = None
    seq: int = 0
    """Its number among all jobs; v1 calls a version so."""
    log_url: str | None = None
    is_deleted: bool = False


class Kept:
    """Reads and writes of the two tables; waits for the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def answer(self, signature: str) -> KeptAnswer | None:
        """What the request with this signature was answered before."""
        with self._database.read() as connection:
            return _answer(connection, signature)

    def keep_answer(self, signature: str, answer: KeptAnswer) -> KeptAnswer:
        """Keep an answer; gives the first one where there already is one."""
        return self._database.write(lambda c: _keep_answer(c, signature, answer))

    def change_once(
        self, signature: str, answer: KeptAnswer, change: Callable[[Connection], None]
    ) -> KeptAnswer:
        """Make a change and keep its answer, both or neither; where it was answered before, nothing
        is changed."""

        def write(connection: Connection) -> KeptAnswer:
            known = _answer(connection, signature)
            if known is not None:
                return known
            change(connection)
            return _keep_answer(connection, signature, answer)

        return self._database.write(write)

    def job(self, job_id: str) -> KeptJob | None:
        """What is kept of a job, deleted or not."""
        with self._database.read() as connection:
            return _job(connection, modelarts_jobs.c.job_id == job_id)

    def note(self, kept: KeptJob, *, in_series: bool = False) -> KeptJob:
        """Keep what was asked for; twice is once. With `in_series` it is v1's: the next version of
        `kept.series`, or the first of a series of its own."""

        def change(connection: Connection) -> KeptJob:
            known = _job(connection, modelarts_jobs.c.job_id == kept.job_id)
            if known is not None:
                return known
            made = kept
            if in_series:
                series = kept.series or _seq(connection, kept.job_id)
                made = replace(kept, series=series, version=_next_version(connection, series))
            _insert(connection, made)
            return replace(made, seq=_seq(connection, kept.job_id))

        return self._database.write(change)

    def version(self, series: int, seq: int) -> KeptJob:
        """One version of a job of v1; JobNotFound."""
        with self._database.read() as connection:
            found = _job(connection, (modelarts_jobs.c.series == series) & (jobs.c.seq == seq))
        if found is None or found.is_deleted:
            raise _no_series(series)
        return found

    def versions(self, series: int) -> list[KeptJob]:
        """All versions of a job of v1, oldest first; JobNotFound where there are none."""
        query = _JOINED.where(
            modelarts_jobs.c.series == series, modelarts_jobs.c.is_deleted.is_(False)
        ).order_by(modelarts_jobs.c.version)
        with self._database.read() as connection:
            found = [_kept_job(row) for row in connection.execute(query)]
        if not found:
            raise _no_series(series)
        return found

    def newest_versions(self, project: str, user: str) -> list[KeptJob]:
        """The newest version of each of a user's jobs of v1, newest first."""
        query = _JOINED.where(
            modelarts_jobs.c.series.is_not(None),
            modelarts_jobs.c.is_deleted.is_(False),
            modelarts_jobs.c.project == project,
            jobs.c.user == user,
        ).order_by(jobs.c.seq)
        with self._database.read() as connection:
            found = {row.series: _kept_job(row) for row in connection.execute(query)}
        return sorted(found.values(), key=lambda kept: -kept.seq)

    def edit(self, edit: "Edit") -> None:
        """Keep other words about a job; twice is once."""
        self._database.write(edit.is_done)

    def mark_deleted(self, kept: KeptJob) -> None:
        """Show a job no more, and have it removed as soon as it has ended."""
        self._database.write(lambda c: _put(c, replace(kept, is_deleted=True)))

    def logs_sent(self, job_id: str) -> None:
        """Note that a job's logs are where they had to go."""
        self._change(job_id, log_url=None)

    def to_do(self) -> list[KeptJob]:
        """Jobs with logs to send, or that are to be removed."""
        wanted = modelarts_jobs.c.log_url.is_not(None) | modelarts_jobs.c.is_deleted
        with self._database.read() as connection:
            return [_kept_job(row) for row in connection.execute(_JOINED.where(wanted))]

    def hidden_in(self, project: str) -> frozenset[str]:
        """Jobs that are not to be shown in a project: they are deleted, or another project's."""
        other = modelarts_jobs.c.is_deleted | (modelarts_jobs.c.project != project)
        with self._database.read() as connection:
            query = select(modelarts_jobs.c.job_id).where(other)
            return frozenset(connection.execute(query).scalars())

    def forget_old(self, now: float) -> None:
        """Drop answers that nobody can ask for again, and what is kept of jobs that are gone."""

        def change(connection: Connection) -> None:
            old = modelarts_answers.c.at < now - ANSWERS_S
            connection.execute(delete(modelarts_answers).where(old))
            gone = modelarts_jobs.c.job_id.not_in(select(jobs.c.id))
            connection.execute(delete(modelarts_jobs).where(gone))

        self._database.write(change)

    def _change(self, job_id: str, **values: Any) -> None:
        which = modelarts_jobs.c.job_id == job_id
        self._database.write(
            lambda c: c.execute(update(modelarts_jobs).where(which).values(values))
        )


@dataclass(frozen=True, slots=True)
class Edit:
    """Other words about a job, kept together with the answer: an edit that is sent again must not undo a
    later one. `kept`: what to begin with where nothing is written down yet."""

    kept: KeptJob
    change: Callable[[Asked], Asked]
    signature: str
    answer: KeptAnswer

    def is_done(self, connection: Connection) -> bool:
        """Whether it was done before; if not, it is now."""
        if _answer(connection, self.signature) is not None:
            return True
        _keep_answer(connection, self.signature, self.answer)
        now = _job(connection, modelarts_jobs.c.job_id == self.kept.job_id) or self.kept
        _put(connection, replace(now, asked=self.change(now.asked)))
        return False


_JOINED = select(modelarts_jobs, jobs.c.seq).join(jobs, jobs.c.id == modelarts_jobs.c.job_id)


def _job(connection: Connection, which: Any) -> KeptJob | None:
    row = connection.execute(_JOINED.where(which)).first()
    return None if row is None else _kept_job(row)


def _kept_job(row: Row[Any]) -> KeptJob:
    return KeptJob(
        job_id=row.job_id,
        project=row.project,
        asked=Asked(**json.loads(row.asked)),
        series=row.series,
        version=row.version,
        seq=row.seq,
        log_url=row.log_url,
        is_deleted=row.is_deleted,
    )


def _insert(connection: Connection, kept: KeptJob) -> None:
    values = asdict(kept)
    del values["seq"]
    values["asked"] = json.dumps(values["asked"], ensure_ascii=False)
    connection.execute(insert(modelarts_jobs).values(values))


def _put(connection: Connection, kept: KeptJob) -> None:
    connection.execute(delete(modelarts_jobs).where(modelarts_jobs.c.job_id == kept.job_id))
    _insert(connection, kept)


def _seq(connection: Connection, job_id: str) -> int:
    return connection.execute(select(jobs.c.seq).where(jobs.c.id == job_id)).scalar_one()


def _next_version(connection: Connection, series: int) -> int:
    highest = select(func.max(modelarts_jobs.c.version)).where(modelarts_jobs.c.series == series)
    return (connection.execute(highest).scalar() or 0) + 1


def _answer(connection: Connection, signature: str) -> KeptAnswer | None:
    which = modelarts_answers.c.signature == signature
    row = connection.execute(select(modelarts_answers).where(which)).first()
    return None if row is None else KeptAnswer(row.status, row.body)


def _keep_answer(connection: Connection, signature: str, answer: KeptAnswer) -> KeptAnswer:
    known = _answer(connection, signature)
    if known is not None:
        return known
    values = {"signature": signature, **asdict(answer), "at": time.time()}
    connection.execute(insert(modelarts_answers).values(values))
    return answer


def _no_series(number: int) -> JobNotFound:
    return JobNotFound(f"no training job {number}")
