"""Tags: words that people put on jobs to find them again."""

import re
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, delete, func, insert, select

from jumar.database.tables import job_tags, jobs
from jumar.errors import BadInput

MOST_PER_JOB = 16
TAG = re.compile(r"[\w][\w.:+-]{0,31}")
_RULE = "a tag has 1 to 32 letters, digits and . : + - _, and begins with a letter or digit"


def checked(tags: Iterable[str]) -> tuple[str, ...]:
    """Each once, in order; BadInput."""
    found = tuple(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
    for tag in found:
        if not TAG.fullmatch(tag):
            raise BadInput(f"{tag[:64]!r} is not a tag", hint=_RULE)
    if len(found) > MOST_PER_JOB:
        raise BadInput(f"a job has at most {MOST_PER_JOB} tags, not {len(found)}")
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


def popular(connection: Connection, user: str | None, limit: int) -> tuple[str, ...]:
    """The tags that are on most jobs, of one user or of all."""
    number = func.count().label("number")
    query = select(job_tags.c.tag).group_by(job_tags.c.tag).order_by(number.desc(), job_tags.c.tag)
    if user is not None:
        query = query.join(jobs, jobs.c.id == job_tags.c.job_id).where(jobs.c.user == user)
    return tuple(connection.execute(query.limit(limit)).scalars())
