"""How many devices a user's running jobs may hold, where an administrator has said so."""

from collections.abc import Callable, Mapping

from sqlalchemy import Connection, delete, insert, select

from jumar.database.access import Database
from jumar.database.tables import quotas, users
from jumar.errors import BadInput, UserNotFound

MOST = 1_000_000


class Quotas:
    """A change is on disk, and counts in the line, before it is answered."""

    def __init__(self, database: Database, on_change: Callable[[Mapping[str, int]], None]) -> None:
        self._database = database
        self._on_change = on_change

    def load(self) -> None:
        """Tell the line."""
        with self._database.read() as connection:
            self._on_change(_all(connection))

    def of(self, user: str) -> int | None:
        """None: what everybody may."""
        with self._database.read() as connection:
            return _all(connection).get(user)

    def put(self, user: str, devices: int | None) -> None:
        """From now on; what runs already goes on. None takes the user's own quota back."""
        if devices is not None and not 0 <= devices <= MOST:
            raise BadInput(f"a quota is a number of devices from 0 to {MOST}")

        def change(connection: Connection) -> Mapping[str, int]:
            known = connection.execute(select(users.c.name).where(users.c.name == user)).first()
            if known is None:
                raise UserNotFound(f"no user {user[:64]!r}", hint="list them with: jumar users")
            connection.execute(delete(quotas).where(quotas.c.user == user))
            if devices is not None:
                connection.execute(insert(quotas).values(user=user, devices=devices))
            return _all(connection)

        self._database.write(change, then=self._on_change)


def _all(connection: Connection) -> Mapping[str, int]:
    return {row.user: row.devices for row in connection.execute(select(quotas))}
