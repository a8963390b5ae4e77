"""Secrets that stand for a user: made, asked about, listed, taken back, swept when they are too old.

They are random and stored as SHA-256; lists name them by an id of their own."""

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import Connection, Delete, Row, delete, insert, select, update

from jumar.database.access import Database
from jumar.database.tables import tokens, users
from jumar.errors import BadInput, Conflict, NotSignedIn, TokenNotFound
from jumar.spec.people import NewToken, TokenRecord, UserRecord

SESSION_S = 30 * 24 * 3600
"""How long a sign-in lasts, in a browser and of `jumar login`."""
Kind = Literal["token", "session", "server"]
Proof = Callable[[Connection], None]
_MOST_KNOWN = 10_000
_USE_WRITTEN_EVERY_S = 3600.0
_LONGEST_LABEL = 128


@dataclass(slots=True)
class _Held:
    """What is known of a token that was asked about."""

    user: UserRecord
    token: TokenRecord

    @property
    def is_over(self) -> bool:
        return self.token.expires_at is not None and self.token.expires_at <= time.time()


class Tokens:
    """Thread-safe. Every request asks whose a token is, so answers are kept until something changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Roles or tokens have changed: ask the database again."""
        with self._lock:
            self._known.clear()

    def new(
        self,
        user: str,
        label: str,
        *,
        kind: Kind = "token",
        lasts_s: float | None = None,
        proof: Proof | None = None,
    ) -> NewToken:
        """A secret that stands for `user` until it is taken back or `lasts_s` are over.

        `proof` raises where what was asked with has been taken back meanwhile: nobody outlives a
        reset by having asked just before."""
        label = label.strip()
        if not label or len(label) > _LONGEST_LABEL or not label.isprintable():
            raise BadInput(
                f"a token's name must have 1 to {_LONGEST_LABEL} printable characters",
                hint="say what it is for: jumar tokens create ci",
            )
        now = time.time()
        made = NewToken(
            id=secrets.token_hex(5),
            user=user,
            label=label,
            kind=kind,
            created_at=now,
            expires_at=None if lasts_s is None else now + lasts_s,
            token=f"jm_{secrets.token_urlsafe(32)}",
        )
        values = {
            "digest": digest(made.token),
            "id": made.id,
            "user": user,
            "label": label,
            "kind": kind,
            "created_at": now,
            "expires_at": made.expires_at,
        }

        def change(connection: Connection) -> None:
            if proof is not None:
                proof(connection)
            connection.execute(delete(tokens).where(tokens.c.expires_at < now))
            connection.execute(insert(tokens).values(**values))

        self._database.write(change)
        return made

    @staticmethod
    def readmit(connection: Connection, user: str, secret: str) -> None:
        """The server's own token stands for `user` again, if it is known no more."""
        key = digest(secret)
        if connection.execute(select(tokens.c.user).where(tokens.c.digest == key)).first() is None:
            values = {"digest": key, "id": secrets.token_hex(5), "user": user, "label": "embedded"}
            connection.execute(
                insert(tokens).values(**values, kind="server", created_at=time.time())
            )

    def user_of(self, secret: str) -> UserRecord | None:
        """Who holds this token."""
        return self.user_by(digest(secret))

    def known_user_of(self, secret: str) -> UserRecord | None:
        """The same without waiting for anything; None does not say that nobody holds it."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            key = digest(secret)
            held = self._known.get(key)
            if held is None or held.is_over:
                return None
            self._note_use(key, held)
            return held.user
        finally:
            self._lock.release()

    def user_by(self, key: str) -> UserRecord | None:
        """Who holds the token with this digest."""
        held = self._held(key)
        return None if held is None else held.user

    def of(self, user: str, current: str = "") -> tuple[TokenRecord, ...]:
        """The tokens of `user` that are still good, newest first; `current` is the asker's own."""
        now = time.time()
        query = select(tokens).where(tokens.c.user == user).order_by(tokens.c.created_at.desc())
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return tuple(
            replace(_record(row), current=bool(current) and row.digest == digest(current))
            for row in rows
            if row.expires_at is None or row.expires_at > now
        )

    def revoke(self, secret: str) -> None:
        """Take a token back; one that nobody holds is none already."""
        self._delete(delete(tokens).where(tokens.c.digest == digest(secret)))

    def revoke_by_id(self, token_id: str, *, user: str | None) -> None:
        """Take back a token of `user`, or of anybody where that is None."""
        unknown = TokenNotFound(f"no token {token_id[:16]!r}", hint="list them with: jumar tokens")
        if not (token_id.isascii() and token_id.isalnum()):
            raise unknown
        which = [tokens.c.id == token_id, *([] if user is None else [tokens.c.user == user])]

        def change(connection: Connection) -> None:
            found = connection.execute(select(tokens.c.kind).where(*which)).first()
            if found is None:
                raise unknown
            if found.kind == "server":
                raise Conflict(
                    "this token belongs to the server itself: commands on its machine use it",
                    hint="if it has leaked, remove client.json from the server's home and restart the server",
                )
            connection.execute(delete(tokens).where(*which))

        self._database.write(change)
        self.forget()

    def _delete(self, what: Delete) -> int:
        count = self._database.write(lambda c: c.execute(what).rowcount)
        self.forget()
        return count

    def _held(self, key: str) -> _Held | None:
        # The lock is held while the database is asked: what is kept is never older than a change.
        with self._lock:
            held = self._known.get(key)
            if held is None:
                held = self._read(key)
                if held is None:
                    return None
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[key] = held
            if held.is_over:
                return None
            self._note_use(key, held)
            return held

    def _read(self, key: str) -> _Held | None:
        query = (
            select(tokens, users.c.role, users.c.created_at.label("user_since"))
            .join(users, tokens.c.user == users.c.name)
            .where(tokens.c.digest == key)
        )
        with self._database.read() as connection:
            row = connection.execute(query).first()
        if row is None:
            return None
        user = UserRecord(name=row.user, role=row.role, created_at=row.user_since)
        return _Held(user, _record(row))

    def _note_use(self, key: str, held: _Held) -> None:
        now, before = time.time(), held.token.used_at
        # A clock that was set back must not make this a write with every request.
        if before is not None and abs(now - before) < _USE_WRITTEN_EVERY_S:
            return
        held.token = replace(held.token, used_at=now)
        # Nobody waits for it: who asks something must not be held up by it, nor fail with it.
        self._database.write_later(
            lambda c: c.execute(update(tokens).where(tokens.c.digest == key).values(used_at=now))
        )


def still_held(secret: str) -> Proof:
    """The proof of who asks with a token: that it has not been taken back."""

    def check(connection: Connection) -> None:
        query = select(tokens.c.id).where(tokens.c.digest == digest(secret))
        if connection.execute(query).first() is None:
            raise NotSignedIn("this token was revoked", hint="sign in with: jumar login")

    return check


def digest(secret: str) -> str:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _record(row: Row[Any]) -> TokenRecord:
    return TokenRecord(
        id=row.id,
        user=row.user,
        label=row.label,
        kind=row.kind,
        created_at=row.created_at,
        expires_at=row.expires_at,
        used_at=row.used_at,
    )
