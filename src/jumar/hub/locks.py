"""Locks of LFS files: who is changing a file that cannot be merged."""

import secrets
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select

from jumar.database.access import Database
from jumar.database.tables import hub_locks
from jumar.errors import Conflict, NotAllowed, NotFound, TooLarge
from jumar.hub.names import check_path
from jumar.spec.people import UserRecord
from jumar.spec.repos import RepoRecord

_MOST_PER_REPO = 10_000


@dataclass(frozen=True, slots=True)
class Lock:
    """One lock."""

    id: str
    path: str
    user: str
    locked_at: float


class PathLocked(Conflict):
    """Somebody has locked the file."""

    def __init__(self, lock: Lock) -> None:
        super().__init__(f"{lock.path} is locked by {lock.user}", hint="git lfs locks lists them")
        self.lock = lock


class Locks:
    """Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, repo: RepoRecord, path: str, user: str) -> Lock:
        """Lock a file; PathLocked where it is."""
        lock = Lock(secrets.token_hex(8), check_path(path), user, time.time())

        def change(connection: Connection) -> None:
            found = connection.execute(
                select(hub_locks).where(hub_locks.c.repo == repo.id, hub_locks.c.path == path)
            ).first()
            if found is not None:
                raise PathLocked(_lock(found))
            counted = select(func.count()).where(hub_locks.c.repo == repo.id)
            if connection.execute(counted).scalar_one() >= _MOST_PER_REPO:
                raise TooLarge(f"a repository may have at most {_MOST_PER_REPO} locks")
            values = {"id": lock.id, "repo": repo.id, "path": path, "user": user}
            connection.execute(insert(hub_locks).values(**values, locked_at=lock.locked_at))

        self._database.write(change)
        return lock

    def of(self, repo: RepoRecord, path: str = "", lock_id: str = "") -> list[Lock]:
        """The locks of a repository, oldest first."""
        query = select(hub_locks).where(hub_locks.c.repo == repo.id)
        if path:
            query = query.where(hub_locks.c.path == path)
        if lock_id:
            query = query.where(hub_locks.c.id == lock_id)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(hub_locks.c.locked_at, hub_locks.c.id)).all()
        return [_lock(row) for row in rows]

    def give_back(self, repo: RepoRecord, lock_id: str, user: UserRecord, *, force: bool) -> Lock:
        """Remove one's own lock, or by force that of another."""

        def change(connection: Connection) -> Lock:
            which = hub_locks.c.repo == repo.id, hub_locks.c.id == lock_id
            found = connection.execute(select(hub_locks).where(*which)).first()
            if found is None:
                raise NotFound("there is no such lock", hint="git lfs locks lists them")
            if found.user != user.name and not force:
                raise NotAllowed(f"the lock is {found.user}'s", hint="git lfs unlock --force")
            connection.execute(delete(hub_locks).where(*which))
            return _lock(found)

        return self._database.write(change)


def _lock(row: Row[Any]) -> Lock:
    return Lock(row.id, row.path, row.user, row.locked_at)
