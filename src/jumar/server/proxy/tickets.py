"""Who may enter an endpoint: one-time codes that a signed-in user gets, and cookies that browsers get
for them. Both are kept in memory, as hashes; a new server knows none."""

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

CODE_S = 60.0
TICKET_S = 12 * 3600.0
RIGHTS_S = 5.0
"""How often it is asked whether a user may still do this."""
_MOST = 10_000


@dataclass(eq=False, slots=True)
class Ticket:
    """One user's way into one endpoint."""

    user: str
    endpoint: str
    check: Callable[[], None]
    """Raises NotSignedIn or NotAllowed once the user may no longer; waits for the database."""
    made_at: float = field(default_factory=time.monotonic)
    checked_at: float = field(default_factory=time.monotonic)

    @property
    def is_due(self) -> bool:
        """Whether the rights are to be asked for again."""
        return time.monotonic() - self.checked_at > RIGHTS_S


class Tickets:
    """Used by the event loop only."""

    def __init__(self) -> None:
        self._codes: dict[bytes, Ticket] = {}
        self._tickets: dict[bytes, Ticket] = {}

    def code_for(self, user: str, endpoint: str, check: Callable[[], None]) -> str:
        """A code that lets one browser in, within a minute."""
        return _kept(self._codes, Ticket(user, endpoint, check), CODE_S)

    def redeem(self, code: str, endpoint: str) -> str | None:
        """The value of a cookie, for a code that nobody has used."""
        found = self._codes.pop(_digest(code), None)
        if found is None or found.endpoint != endpoint or _is_old(found, CODE_S):
            return None
        return _kept(self._tickets, Ticket(found.user, endpoint, found.check), TICKET_S)

    def of(self, values: list[str], endpoint: str) -> Ticket | None:
        """The ticket that one of a browser's cookies stands for."""
        for value in values:
            found = self._tickets.get(_digest(value))
            if found is not None and found.endpoint == endpoint and not _is_old(found, TICKET_S):
                return found
        return None

    def revoke(self, wanted: Callable[[Ticket], bool]) -> None:
        """Forget some of them."""
        for kept in (self._codes, self._tickets):
            for key in [key for key, ticket in kept.items() if wanted(ticket)]:
                del kept[key]


def _kept(where: dict[bytes, Ticket], ticket: Ticket, limit_s: float) -> str:
    for key in [key for key, one in where.items() if _is_old(one, limit_s)]:
        del where[key]
    while len(where) >= _MOST:
        del where[next(iter(where))]
    secret = secrets.token_urlsafe(32)
    where[_digest(secret)] = ticket
    return secret


def _is_old(ticket: Ticket, limit_s: float) -> bool:
    return time.monotonic() - ticket.made_at > limit_s


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
