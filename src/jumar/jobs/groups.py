"""Groups: who shares what part of the site. Everybody is in one group, at first in `default`."""

import math
import re
import time
from collections.abc import Callable

from sqlalchemy import Connection, delete, insert, select, update

from jumar.database.access import Database
from jumar.database.tables import group_members, groups, users
from jumar.errors import BadInput, Conflict, GroupNotFound, NameTaken, NotFound, UserNotFound
from jumar.jobs.scheduling.turns import DEFAULT_GROUP, Member, Shares
from jumar.spec.shares import GroupMember, GroupRecord

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}")
_LARGEST_SHARE = 1e6
_SMALLEST_SHARE = 1e-6


class Groups:
    """Changes are on disk, and count in the line, before they are answered."""

    def __init__(self, database: Database, on_change: Callable[[Shares], None]) -> None:
        self._database = database
        self._on_change = on_change

    def load(self) -> None:
        """Tell the line who shares what."""
        with self._database.read() as connection:
            self._on_change(_shares(connection))

    def all(self) -> tuple[GroupRecord, ...]:
        """Every group, by name, with everybody in it."""
        with self._database.read() as connection:
            shares = _shares(connection)
            names = connection.execute(select(users.c.name).order_by(users.c.name)).scalars().all()
        return tuple(
            GroupRecord(
                name=group,
                share=share,
                members=tuple(
                    GroupMember(user=name, share=shares.member(name).share)
                    for name in names
                    if shares.member(name).group == group
                ),
            )
            for group, share in sorted(shares.groups.items())
        )

    def create(self, name: str, share: float = 1.0) -> GroupRecord:
        """A new group with nobody in it."""
        if not _NAME.fullmatch(name):
            raise BadInput(
                f"{name[:64]!r} is not a name of a group",
                hint="use letters, digits, '.', '_' and '-'",
            )
        _check_share(share)

        def change(connection: Connection) -> None:
            if _has(connection, name):
                raise NameTaken(f"a group named {name!r} already exists")
            values = {"name": name, "share": share, "created_at": time.time()}
            connection.execute(insert(groups).values(**values))

        self._write(change)
        return self.get(name)

    def set_share(self, name: str, share: float) -> GroupRecord:
        """Give a group another share of the site."""
        _check_share(share)

        def change(connection: Connection) -> None:
            _check_group(connection, name)
            connection.execute(update(groups).where(groups.c.name == name).values(share=share))

        self._write(change)
        return self.get(name)

    def delete(self, name: str) -> None:
        """Remove a group; whoever is in it goes back to the default group."""
        if name == DEFAULT_GROUP:
            raise Conflict(f"the group {DEFAULT_GROUP!r} stays: everybody has to be somewhere")

        def change(connection: Connection) -> None:
            _check_group(connection, name)
            connection.execute(delete(group_members).where(group_members.c.group == name))
            connection.execute(delete(groups).where(groups.c.name == name))

        self._write(change)

    def add(self, name: str, user: str, share: float | None = None) -> GroupRecord:
        """Put a user into a group, out of the one they are in; or change their share of it."""
        if share is not None:
            _check_share(share)

        def change(connection: Connection) -> None:
            _check_group(connection, name)
            known = connection.execute(select(users.c.name).where(users.c.name == user)).first()
            if known is None:
                raise UserNotFound(f"no user {user[:64]!r}", hint="list them with: jumar users")
            before = _shares(connection).member(user)
            kept = before.share if before.group == name else 1.0
            connection.execute(delete(group_members).where(group_members.c.user == user))
            values = {"user": user, "group": name, "share": kept if share is None else share}
            connection.execute(insert(group_members).values(**values))

        self._write(change)
        return self.get(name)

    def remove(self, name: str, user: str) -> GroupRecord:
        """Put a user back into the default group."""

        def change(connection: Connection) -> None:
            _check_group(connection, name)
            if _shares(connection).member(user).group != name:
                raise NotFound(
                    f"{user[:64]!r} is not in the group {name!r}",
                    hint="list groups with: jumar groups list",
                )
            if name == DEFAULT_GROUP:
                raise Conflict(
                    f"nobody can be removed from {DEFAULT_GROUP!r}",
                    hint="add them to another group instead: jumar groups add GROUP USER",
                )
            connection.execute(delete(group_members).where(group_members.c.user == user))

        self._write(change)
        return self.get(name)

    def get(self, name: str) -> GroupRecord:
        """One group."""
        for group in self.all():
            if group.name == name:
                return group
        raise _no_group(name)

    def _write(self, change: Callable[[Connection], None]) -> None:
        def changed(connection: Connection) -> Shares:
            change(connection)
            return _shares(connection)

        self._database.write(changed, then=self._on_change)


def _shares(connection: Connection) -> Shares:
    members = connection.execute(select(group_members))
    return Shares(
        groups={row.name: row.share for row in connection.execute(select(groups))},
        members={row.user: Member(row.group, row.share) for row in members},
    )


def _has(connection: Connection, name: str) -> bool:
    return (
        connection.execute(select(groups.c.name).where(groups.c.name == name)).first() is not None
    )


def _check_group(connection: Connection, name: str) -> None:
    if not _has(connection, name):
        raise _no_group(name)


def _no_group(name: str) -> GroupNotFound:
    return GroupNotFound(f"no group {name[:64]!r}", hint="list them with: jumar groups list")


def _check_share(share: float) -> None:
    if not (math.isfinite(share) and _SMALLEST_SHARE <= share <= _LARGEST_SHARE):
        raise BadInput(
            f"a share of {share:g} is not possible",
            hint="shares are proportions, such as 1, 2 or 0.5",
        )
