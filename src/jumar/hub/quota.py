"""How much the repositories of one owner may take, and how much they do."""

from collections.abc import Callable

from sqlalchemy import Connection, func, select

from jumar.database.tables import hub_links, hub_objects, hub_repos
from jumar.errors import TooLarge


class Quota:
    """Asked inside of the transaction that adds something, so that two uploads at once do not both fit."""

    def __init__(self, limit_bytes: int = 0, disk_bytes: int = 0) -> None:
        """`limit_bytes`: of repositories alone, `disk_bytes`: of all that an owner has; 0 means no limit."""
        self._limit_bytes, self._disk_bytes = limit_bytes, disk_bytes
        self.others: Callable[[str], int] = lambda owner: 0
        """What else of an owner counts towards `disk_bytes`."""

    def check(self, connection: Connection, owner: str, more: int) -> None:
        """TooLarge where `more` bytes would be over what `owner` may store."""
        left = self.left(connection, owner)
        if left is not None and more > left:
            raise TooLarge(
                f"{self._rule(owner)}, and {more} more do not fit",
                hint="delete what is no longer needed, or ask an administrator for more",
            )

    def _rule(self, owner: str) -> str:
        if self._disk_bytes and not 0 < self._limit_bytes <= self._disk_bytes:
            return (
                f"jobs, uploaded code and repositories of {owner} may take {self._disk_bytes} bytes"
            )
        return f"the repositories of {owner} may take {self._limit_bytes} bytes"

    def left(self, connection: Connection, owner: str) -> int | None:
        """How many bytes still fit, less than 0 where it is too much already; None: no limit."""
        limits = [self._limit_bytes] if self._limit_bytes else []
        if self._disk_bytes:
            limits.append(self._disk_bytes - self.others(owner))
        return min(limits) - used_bytes(connection, owner) if limits else None


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
