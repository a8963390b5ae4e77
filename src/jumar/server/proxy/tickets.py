"""Who may enter an endpoint: one-time codes that a signed-in user gets, and cookies that browsers get
for them. Both are kept as hashes."""

import hashlib
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from jumar.people.rights import Right

CODE_S = 60.0
TICKET_S = 12 * 3600.0
RIGHTS_S = 5.0
"""How often it is asked whether a user may still do this."""
_MOST = 10_000
_MOST_BROWSERS = 32
"""Of one user, in one endpoint."""


@dataclass(eq=False, slots=True)
class Ticket:
    """One user's way into one endpoint."""

    user: str
    endpoint: str
    right: Right
    """With what the user has asked."""
    made_at: float = field(default_factory=time.monotonic)
    checked_at: float = field(default_factory=time.monotonic)

    @property
    def is_due(self) -> bool:
        """Whether the rights are to be asked for again."""
        return time.monotonic() - self.checked_at > RIGHTS_S


class Tickets:
    """Used by the event loop only."""

    def __init__(self) -> None:
        self._codes: dict[str, Ticket] = {}
        self._tickets: dict[str, Ticket] = {}

    def code_for(self, user: str, endpoint: str, right: Right) -> str:
        """A code that lets one browser in, within a minute."""
        return _kept(self._codes, Ticket(user, endpoint, right), CODE_S)

    def redeem(self, code: str, endpoint: str) -> str | None:
        """The value of a cookie, for a code that nobody has used."""
        found = self._codes.pop(_digest(code), None)
        if found is None or found.endpoint != endpoint or _is_old(found, CODE_S):
            return None
        same = [
            key
            for key, one in self._tickets.items()
            if (one.user, one.endpoint) == (found.user, endpoint)
        ]
        for key in same[: max(0, len(same) - _MOST_BROWSERS + 1)]:
            del self._tickets[key]
        return _kept(self._tickets, Ticket(found.user, endpoint, found.right), TICKET_S)

    def of(self, values: list[str], endpoint: str) -> Ticket | None:
        """The ticket that one of a browser's cookies stands for."""
        for value in values:
            found = self._tickets.get(_digest(value))
            if found is not None and found.endpoint == endpoint and not _is_old(found, TICKET_S):
                return found
        return None

    def revoke(self, *, endpoint: str | None = None, ticket: Ticket | None = None) -> None:
        """Forget those of an endpoint, or one."""
        for kept in (self._codes, self._tickets):
            for key in [k for k, one in kept.items() if one is ticket or one.endpoint == endpoint]:
                del kept[key]

    def as_json(self, endpoint: str) -> list[dict[str, object]]:
        """What is written down of an endpoint's tickets; codes are too short-lived for that."""
        now, wall = time.monotonic(), time.time()
        return [
            {
                "digest": key,
                "user": one.user,
                "right": one.right.as_json(),
                "made_at": round(wall - (now - one.made_at)),
            }
            for key, one in self._tickets.items()
            if one.endpoint == endpoint and not _is_old(one, TICKET_S)
        ]

    def restore(self, endpoint: str, known: list[dict[str, Any]]) -> None:
        """Take up what `as_json` gave an earlier server; KeyError, TypeError, ValueError."""
        now, wall = time.monotonic(), time.time()
        for values in known[:_MOST]:
            age = max(0.0, wall - float(values["made_at"]))
            right = Right.from_json(values["right"])
            # Asked about before it is used: much may have changed meanwhile.
            ticket = Ticket(str(values["user"]), endpoint, right, now - age, float("-inf"))
            self._tickets[str(values["digest"])] = ticket


def _kept(where: dict[str, Ticket], ticket: Ticket, limit_s: float) -> str:
    for key in [key for key, one in where.items() if _is_old(one, limit_s)]:
        del where[key]
    while len(where) >= _MOST:
        del where[next(iter(where))]
    secret = secrets.token_urlsafe(32)
    where[_digest(secret)] = ticket
    return secret


def _is_old(ticket: Ticket, limit_s: float) -> bool:
    return time.monotonic() - ticket.made_at > limit_s


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
