"""The list of jobs as people look through it, and which job somebody means: an id, the beginning of one,
or a name, which belongs to its user.

One's own jobs come first. Those of others are found by their id; by its beginning, or by the name
of their user, only for who may see all jobs. Tags are words that people put on jobs to find them again."""

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from sqlalchemy import Column, ColumnElement, Connection, delete, func, insert, select
from sqlalchemy.sql import Select

from jumar.database.tables import job_tags, jobs
from jumar.errors import BadInput, JobNotFound
from jumar.jobs.ledger import ID_LENGTH
from jumar.jobs.rows import job_summary
from jumar.spec.records import JobSummary
from jumar.spec.states import JobSort, JobState

_MOST_TAGS = 16
_TAG = re.compile(r"[\w][\w.:+-]{0,31}")
_TAG_RULE = "a tag has 1 to 32 letters, digits and . : + - _, and begins with a letter or digit"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageQuery:
    """Which rows of the list."""

    states: frozenset[JobState] = frozenset()
    user: str | None = None
    text: str | None = None
    tag: str | None = None
    sort: JobSort = JobSort.NEWEST
    before: int | None = None
    """Of the newest first: the number of the row before. In another order: how many rows to skip."""
    limit: int = 50

    @property
    def is_narrow(self) -> bool:
        """Whether jobs may be left out that are in any of its states."""
        return self.user is not None or bool(self.text) or self.tag is not None


def page(connection: Connection, query: PageQuery) -> list[tuple[int, JobSummary]]:
    """Up to `limit` rows in their order, each with what is `before` for the row after it.

    Rows are large and indexes are not: which rows is asked of those, and only the rows of the page are read."""
    wanted = _filtered(cast("Any", select(jobs.c.seq)), query).limit(query.limit)
    skipped = query.before or 0
    if query.sort is JobSort.NEWEST:
        wanted = wanted.order_by(jobs.c.seq.desc())
        if query.before is not None:
            wanted = wanted.where(jobs.c.seq < query.before)
    else:
        wanted = wanted.order_by(*_order(query.sort)).offset(skipped)
    numbers = list(connection.execute(wanted).scalars())
    found = connection.execute(select(*_columns()).where(jobs.c.seq.in_(numbers)))
    rows = {row.seq: row for row in found}
    known = tags_of(connection, [row.id for row in rows.values()])
    return [
        (
            seq if query.sort is JobSort.NEWEST else skipped + number,
            job_summary(rows[seq], known.get(rows[seq].id, ())),
        )
        for number, seq in enumerate(numbers, 1)
        if seq in rows
    ]


def _order(sort: JobSort) -> tuple[ColumnElement[Any], ...]:
    """Each ends with the number, so that a page goes on where the one before ended."""
    took = func.coalesce(jobs.c.finished_at, time.time()) - jobs.c.started_at
    return {
        JobSort.OLDEST: (jobs.c.seq.asc(),),
        JobSort.NAME: (jobs.c.name.asc(), jobs.c.seq.desc()),
        JobSort.USER: (jobs.c.user.asc(), jobs.c.seq.desc()),
        JobSort.LONGEST: (took.desc().nulls_last(), jobs.c.seq.desc()),
        JobSort.FINISHED: (jobs.c.finished_at.desc().nulls_last(), jobs.c.seq.desc()),
    }[sort]


def counts_by_state(connection: Connection, query: PageQuery | None = None) -> dict[str, int]:
    """How many jobs are in each state, of those that `query` asks for in any state."""
    wanted = PageQuery() if query is None else replace(query, states=frozenset())
    every: Select[Any] = cast("Any", select(jobs.c.state, func.count().label("number")))
    counted = _filtered(every, wanted).group_by(jobs.c.state)
    return {row.state: row.number for row in connection.execute(counted)}


def ended(connection: Connection, since: float, limit: int) -> tuple[JobSummary, ...]:
    """Jobs that ended since then, the latest first."""
    query = select(*_columns()).where(jobs.c.finished_at >= since)
    rows = connection.execute(query.order_by(jobs.c.finished_at.desc()).limit(limit))
    return tuple(map(job_summary, rows))


def _columns() -> list[Column[Any]]:
    return [column for column in jobs.c if column.name not in ("notes", "submit_key")]


def _filtered(query: Select[Any], wanted: PageQuery) -> Select[Any]:
    if wanted.states:
        query = query.where(jobs.c.state.in_(sorted(wanted.states)))
    if wanted.user is not None:
        query = query.where(jobs.c.user == wanted.user)
    if wanted.text:
        # A question of its own, which the index `ix_jobs_search` answers alone.
        other = jobs.alias()
        says_so = (
            other.c.name.icontains(wanted.text, autoescape=True)
            | (other.c.id == wanted.text)
            | (other.c.array_id == wanted.text)
        )
        query = query.where(jobs.c.seq.in_(select(other.c.seq).where(says_so)))
    if wanted.tag is not None:
        tagged = select(job_tags.c.job_id).where(job_tags.c.tag == wanted.tag)
        query = query.where(jobs.c.id.in_(tagged))
    return query


_SHORTEST_PREFIX = 3
_ELEMENT = re.compile(r"(?P<array>[a-z][a-z0-9]{9})-(?P<index>\d{1,7})", re.ASCII)
_MOST_OWNERS = 5
_MOST_DIGITS = 7


def resolve(
    connection: Connection, job: str, *, user: str, owner: str | None = None, sees_all: bool = False
) -> str:
    """The id of the job that `user` calls `job`; with `owner`, the one that `owner` calls so."""
    if not job.isprintable() or not (owner or "").isprintable():
        raise _no_job(job)
    if owner is not None:
        found = _of_user(connection, job, owner)
        if found is None:
            raise _no_job(f"{owner}/{job}")
        return found
    found = (
        _exactly(connection, job) or _in_array(connection, job) or _of_user(connection, job, user)
    )
    if found is None and sees_all:
        found = _by_prefix(connection, job)
        if found is None:
            raise _no_job(job, hint=_others_hint(connection, job))
    if found is None:
        raise _no_job(job)
    return found


def target(connection: Connection, job: str, *, user: str, sees_all: bool) -> str:
    """The id of the job or of the whole array that `user` calls `job`: the id or the name of an array
    is the array, what names one job of it is that job."""
    if _array_of(connection, jobs.c.array_id == job) is not None:
        return job
    found = resolve(connection, job, user=user, sees_all=sees_all)
    by_name = (jobs.c.id == found) & (jobs.c.name == job)
    return _array_of(connection, by_name) or found


def is_whole_array(job: str, found: JobSummary) -> bool:
    """Whether `job`, by which `found` was found, means all jobs of its array."""
    return found.array_id is not None and job in (found.array_id, found.name)


def indices_of(connection: Connection, array_id: str) -> tuple[int, ...]:
    """The indices of an array's jobs, ascending, as far as they have not been removed."""
    which = select(jobs.c.array_index).where(jobs.c.array_id == array_id)
    return tuple(connection.execute(which.order_by(jobs.c.array_index)).scalars())


def _array_of(connection: Connection, which: ColumnElement[bool]) -> str | None:
    return connection.execute(select(jobs.c.array_id).where(which).limit(1)).scalar()


def _in_array(connection: Connection, job: str) -> str | None:
    """The first job of an array, or the one that `ARRAY-3` names."""
    found = _ELEMENT.fullmatch(job)
    which = jobs.c.array_id == (found["array"] if found else job)
    if found:
        which &= jobs.c.array_index == int(found["index"])
    return connection.execute(select(jobs.c.id).where(which).order_by(jobs.c.seq).limit(1)).scalar()


def _exactly(connection: Connection, job: str) -> str | None:
    return connection.execute(select(jobs.c.id).where(jobs.c.id == job)).scalar()


def _of_user(connection: Connection, job: str, user: str) -> str | None:
    theirs = jobs.c.user == user
    # A whole name before the beginning of an id: a short name must not meet a random id.
    newest = select(jobs.c.id).where(theirs, jobs.c.name == job).order_by(jobs.c.seq.desc())
    found = connection.execute(newest.limit(1)).scalar()
    return found or _by_index(connection, job, theirs) or _by_prefix(connection, job, theirs)


def _by_index(connection: Connection, job: str, theirs: ColumnElement[bool]) -> str | None:
    """The job that `grid-3` names: of the newest array of that name."""
    name, dash, index = job.rpartition("-")
    if not dash or not (index.isascii() and index.isdigit() and len(index) <= _MOST_DIGITS):
        return None
    which = theirs & (jobs.c.name == name) & (jobs.c.array_index == int(index))
    newest = select(jobs.c.id).where(which).order_by(jobs.c.seq.desc())
    return connection.execute(newest.limit(1)).scalar()


def _by_prefix(connection: Connection, job: str, *which: ColumnElement[bool]) -> str | None:
    if not (_SHORTEST_PREFIX <= len(job) <= ID_LENGTH and job.isascii() and job.isalnum()):
        return None
    begins_so = jobs.c.id.startswith(job, autoescape=True)
    query = select(jobs.c.id).where(begins_so, *which).order_by(jobs.c.id).limit(3)
    found = connection.execute(query).scalars().all()
    if len(found) > 1:
        raise BadInput(f"{job!r} is the beginning of several jobs: {', '.join(found)}, …")
    return found[0] if found else None


def _others_hint(connection: Connection, job: str) -> str | None:
    """To who may see all: whose jobs are called so."""
    owners = select(jobs.c.user).where(jobs.c.name == job).distinct().order_by(jobs.c.user)
    found = connection.execute(owners.limit(_MOST_OWNERS)).scalars().all()
    if not found:
        return None
    return "others have jobs of this name: " + ", ".join(f"{user}/{job}" for user in found)


def _no_job(job: str, *, hint: str | None = None) -> JobNotFound:
    return JobNotFound(f"no job {job[:200]!r}", hint=hint or "list them with: jumar jobs --all")


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Each once, in order; BadInput."""
    found = tuple(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
    for tag in found:
        if not _TAG.fullmatch(tag):
            raise BadInput(f"{tag[:64]!r} is not a tag", hint=_TAG_RULE)
    if len(found) > _MOST_TAGS:
        raise BadInput(f"a job has at most {_MOST_TAGS} tags, not {len(found)}")
    return tuple(sorted(found))


def set_tags(connection: Connection, job_id: str, tags: Sequence[str]) -> None:
    """These, in place of those that it had."""
    connection.execute(delete(job_tags).where(job_tags.c.job_id == job_id))
    if tags:
        connection.execute(insert(job_tags), [{"job_id": job_id, "tag": tag} for tag in tags])


def tags_of(connection: Connection, job_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The tags of each job that has some."""
    found: dict[str, list[str]] = {}
    wanted = job_tags.c.job_id.in_(job_ids)
    for row in connection.execute(select(job_tags).where(wanted).order_by(job_tags.c.tag)):
        found.setdefault(row.job_id, []).append(row.tag)
    return {job_id: tuple(tags) for job_id, tags in found.items()}


def popular_tags(connection: Connection, user: str | None, limit: int) -> tuple[str, ...]:
    """The tags that are on most jobs, of one user or of all."""
    number = func.count().label("number")
    query = select(job_tags.c.tag).group_by(job_tags.c.tag).order_by(number.desc(), job_tags.c.tag)
    if user is not None:
        query = query.join(jobs, jobs.c.id == job_tags.c.job_id).where(jobs.c.user == user)
    return tuple(connection.execute(query.limit(limit)).scalars())
