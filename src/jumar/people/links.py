"""Links with which anybody may look at some jobs, and change nothing, until they are taken back.

Secrets are random and stored as SHA-256. A link is worth what its user may see at the moment it is used."""

import json
import secrets
import time
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, or_, select

from jumar.database.access import Database
from jumar.database.tables import jobs, share_links, users
from jumar.errors import Conflict, NotFound
from jumar.people.tokens import digest
from jumar.spec.people import LinkRecord, NewLink

MOST_PER_USER = 200


class Links:
    """Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def new(self, user: str, job_ids: tuple[str, ...], lasts_s: float | None) -> NewLink:
        """A link of `user` to these jobs; its secret is given out here only."""
        secret, now = secrets.token_urlsafe(24), time.time()
        made = NewLink(
            id=secrets.token_hex(8),
            user=user,
            jobs=job_ids,
            created_at=now,
            expires_at=None if lasts_s is None else now + lasts_s,
            secret=secret,
        )

        def change(connection: Connection) -> None:
            is_over = share_links.c.expires_at <= now
            connection.execute(delete(share_links).where(is_over))
            count = select(func.count()).where(share_links.c.user == user)
            if connection.execute(count).scalar_one() >= MOST_PER_USER:
                raise Conflict(f"{user} already has {MOST_PER_USER} links", hint="revoke some")
            row = insert(share_links).values(
                digest=digest(secret),
                id=made.id,
                user=user,
                jobs=json.dumps(job_ids),
                created_at=now,
                expires_at=made.expires_at,
            )
            connection.execute(row)

        self._database.write(change)
        return made

    def of(self, user: str | None) -> tuple[LinkRecord, ...]:
        """The links of one user, or of all, newest first."""
        query = select(share_links).where(_is_good()).order_by(share_links.c.created_at.desc())
        if user is not None:
            query = query.where(share_links.c.user == user)
        with self._database.read() as connection:
            return tuple(map(_record, connection.execute(query)))

    def revoke(self, link: str, *, user: str | None) -> None:
        """Take a link back, of `user` or of anybody; whoever looks is shown nothing more."""
        which = share_links.c.id == link
        if user is not None:
            which &= share_links.c.user == user

        def change(connection: Connection) -> None:
            if not connection.execute(delete(share_links).where(which)).rowcount:
                raise NotFound(f"no link {link[:64]!r}")

        self._database.write(change)

    def find(self, secret: str) -> LinkRecord | None:
        """The link with this secret, if it is good."""
        query = select(share_links).where(share_links.c.digest == digest(secret), _is_good())
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return None if row is None else _record(row)

    def opens(self, secret: str, job_id: str) -> bool:
        """Whether the holder may look at a job: its user still may, and has not been suspended."""
        link = self.find(secret)
        if link is None or job_id not in link.jobs:
            return False
        query = select(users.c.role).where(users.c.name == link.user)
        owner = select(jobs.c.user).where(jobs.c.id == job_id)
        with self._database.read() as connection:
            role = connection.execute(query).scalar()
            is_own = connection.execute(owner).scalar() == link.user
        return role == "admin" or (role == "member" and is_own)


def _is_good() -> Any:
    return or_(share_links.c.expires_at.is_(None), share_links.c.expires_at > time.time())


def _record(row: Row[Any]) -> LinkRecord:
    return LinkRecord(
        id=row.id,
        user=row.user,
        jobs=tuple(json.loads(row.jobs)),
        created_at=row.created_at,
        expires_at=row.expires_at,
    )
