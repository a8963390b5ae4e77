"""The list of jobs as people look through it: some rows, newest first, and how many there are."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.sql import Select

from jumar.database.tables import jobs
from jumar.jobs.rows import job_summary
from jumar.spec.records import JobSummary
from jumar.spec.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class PageQuery:
    """Which rows of the list."""

    states: frozenset[JobState] = frozenset()
    user: str | None = None
    text: str | None = None
    before: int | None = None
    limit: int = 50


def page(connection: Connection, query: PageQuery) -> list[tuple[int, JobSummary]]:
    """Up to `limit` rows, newest first, each with its number in the table."""
    columns = [column for column in jobs.c if column.name not in ("spec", "notes", "submit_key")]
    rows = connection.execute(
        _filtered(select(*columns), query).order_by(jobs.c.seq.desc()).limit(query.limit)
    )
    return [(row.seq, job_summary(row)) for row in rows]


def count(connection: Connection, query: PageQuery) -> int:
    """How many rows there are in all, whatever page is asked for."""
    unpaged = PageQuery(states=query.states, user=query.user, text=query.text)
    return connection.execute(
        _filtered(select(func.count()).select_from(jobs), unpaged)
    ).scalar_one()


def counts_by_state(connection: Connection) -> dict[str, int]:
    """How many jobs are in each state."""
    query = select(jobs.c.state, func.count()).group_by(jobs.c.state)
    return {row.state: row[1] for row in connection.execute(query)}


def _filtered(query: Select[Any], wanted: PageQuery) -> Select[Any]:
    if wanted.states:
        query = query.where(jobs.c.state.in_(sorted(wanted.states)))
    if wanted.user is not None:
        query = query.where(jobs.c.user == wanted.user)
    if wanted.text:
        query = query.where(
            jobs.c.name.icontains(wanted.text, autoescape=True) | (jobs.c.id == wanted.text)
        )
    if wanted.before is not None:
        query = query.where(jobs.c.seq < wanted.before)
    return query
