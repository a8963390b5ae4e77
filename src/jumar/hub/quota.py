"""How much the repositories of one owner may take, and how much they do."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from jumar.database.tables import hub_links, hub_objects, hub_repos
from jumar.errors import TooLarge


@dataclass(frozen=True, slots=True)
class Quota:
    """Asked inside of the transaction that adds something, so that two uploads at once do not both fit."""

    limit_bytes: int = 0
    """0 means no limit."""

    def check(self, connection: Connection, owner: str, more: int) -> None:
        """TooLarge where `more` bytes would be over what `owner` may store."""
        left = self.left(connection, owner)
        if left is not None and more > left:
            raise TooLarge(
                f"the repositories of {owner} may take {self.limit_bytes} bytes, and {more} more do not fit",
                hint="delete what is no longer needed, or ask an administrator for more",
            )

    def left(self, connection: Connection, owner: str) -> int | None:
        """How many bytes still fit, less than 0 where it is too much already; None: no limit."""
        return self.limit_bytes - used_bytes(connection, owner) if self.limit_bytes else None


def used_bytes(connection: Connection, owner: str) -> int:
    """What the repositories of `owner` take; an object counts once for each of them."""
    git = select(func.coalesce(func.sum(hub_repos.c.git_bytes), 0)).where(
        hub_repos.c.owner == owner
    )
    objects = (
        select(func.coalesce(func.sum(hub_objects.c.size), 0))
        .join(hub_links, hub_links.c.oid == hub_objects.c.oid)
        .join(hub_repos, hub_repos.c.id == hub_links.c.repo)
        .where(hub_repos.c.owner == owner)
    )
    return sum(int(connection.execute(query).scalar_one()) for query in (git, objects))
