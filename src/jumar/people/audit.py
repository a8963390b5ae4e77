"""Who changed what: every call that changed something, kept for a year."""

import logging
import time

from sqlalchemy import Connection, delete, insert, select

from jumar.database.access import Database
from jumar.database.tables import audit
from jumar.errors import JumarError
from jumar.spec.people import AuditRecord

log = logging.getLogger(__name__)
KEPT_S = 365 * 86_400
_SWEPT_EVERY = 1000
_LONGEST_PATH = 512


class Audit:
    """Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, *, user: str, method: str, path: str, status: int) -> None:
        """Write a call down. What was done is done: if it cannot be written, the server's log has it."""
        now = time.time()
        values = {"at": now, "user": user, "method": method, "status": status}

        def change(connection: Connection) -> None:
            made = insert(audit).returning(audit.c.seq)
            seq = connection.execute(made, {**values, "path": path[:_LONGEST_PATH]}).scalar_one()
            if seq % _SWEPT_EVERY == 0:
                connection.execute(delete(audit).where(audit.c.at < now - KEPT_S))

        try:
            self._database.write(change)
        except JumarError as error:
            log.warning("not in the audit log: %s %s by %s: %s", method, path, user, error)

    def page(
        self, *, user: str | None = None, before: int | None = None, limit: int = 100
    ) -> tuple[AuditRecord, ...]:
        """The latest first; of one user, or before a record."""
        query = select(audit).order_by(audit.c.seq.desc()).limit(limit)
        if user is not None:
            query = query.where(audit.c.user == user)
        if before is not None:
            query = query.where(audit.c.seq < before)
        with self._database.read() as connection:
            return tuple(
                AuditRecord(
                    seq=row.seq,
                    at=row.at,
                    user=row.user,
                    method=row.method,
                    path=row.path,
                    status=row.status,
                )
                for row in connection.execute(query)
            )
