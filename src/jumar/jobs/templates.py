"""Jobs that people keep to fill the submit form from: their own, and those they share. Secrets are
never kept with them."""

import json
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, or_, select

from jumar.database.access import Database
from jumar.database.tables import job_templates
from jumar.errors import Conflict, NotFound
from jumar.spec.job import JobSpec

MOST_PER_USER = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTemplate:
    """One of them."""

    id: int
    user: str
    is_shared: bool
    created_at: float
    spec: JobSpec


class Templates:
    """The templates of one server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self, user: str) -> tuple[JobTemplate, ...]:
        """Those that `user` may use, by name."""
        mine = or_(job_templates.c.user == user, job_templates.c.is_shared)
        query = select(job_templates).where(mine).order_by(job_templates.c.name)
        with self._database.read() as connection:
            return tuple(map(_template, connection.execute(query)))

    def find(self, template: int, user: str) -> JobTemplate:
        """One that `user` may use."""
        found = next((kept for kept in self.all(user) if kept.id == template), None)
        if found is None:
            raise NotFound(f"no template {template}")
        return found

    def keep(self, spec: JobSpec, *, user: str, is_shared: bool) -> None:
        """Keep a job under its name, in the place of the user's template of that name."""
        row = {
            "user": user,
            "name": spec.name,
            "is_shared": is_shared,
            "created_at": time.time(),
            "spec": json.dumps(spec.masked()),
        }

        def change(connection: Connection) -> None:
            theirs = job_templates.c.user == user
            same = theirs & (job_templates.c.name == spec.name)
            connection.execute(delete(job_templates).where(same))
            kept = connection.execute(select(job_templates.c.id).where(theirs)).all()
            if len(kept) >= MOST_PER_USER:
                raise Conflict(
                    f"{user} already has {MOST_PER_USER} templates", hint="delete some of them"
                )
            connection.execute(insert(job_templates).values(row))

        self._database.write(change)

    def delete(self, template: int, user: str, *, sees_all: bool = False) -> None:
        """Delete one of the user's own."""
        which = job_templates.c.id == template
        if not sees_all:
            which &= job_templates.c.user == user

        def change(connection: Connection) -> int:
            return connection.execute(delete(job_templates).where(which)).rowcount

        if not self._database.write(change):
            raise NotFound(f"no template {template} of {user}")


def _template(row: Any) -> JobTemplate:
    return JobTemplate(
        id=row.id,
        user=row.user,
        is_shared=row.is_shared,
        created_at=row.created_at,
        spec=JobSpec.model_validate_json(row.spec),
    )
