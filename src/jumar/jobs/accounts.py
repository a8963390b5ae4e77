"""Who may use the platform: users, roles, tokens and one-time login codes.

Secrets are random and stored as SHA-256, passwords as scrypt; none can be read back."""

import hashlib
import hmac
import re
import secrets
import threading
import time
from typing import Literal, get_args

from sqlalchemy import Connection, delete, insert, select, update

from jumar.errors import BadInput, Conflict, NotFound, NotSignedIn
from jumar.jobs.database import Database
from jumar.jobs.tables import login_codes, tokens, users
from jumar.spec.records import UserRecord

Role = Literal["admin", "member", "pending"]
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}")
_SHORTEST_PASSWORD = 8
_LONGEST_PASSWORD = 1024
_LOGIN_CODE_S = 3600
_MOST_KNOWN = 10_000


class Accounts:
    """Users and what they prove themselves with."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Every request asks whose a token is; roles change only through this object.
        self._known: dict[str, UserRecord] = {}
        self._lock = threading.Lock()

    def bootstrap(self, name: str) -> str:
        """Make `name`, who owns the platform's home, an administrator; a fresh token for them."""

        def change(connection: Connection) -> None:
            promoted = update(users).where(users.c.name == name).values(role="admin")
            if connection.execute(promoted).rowcount == 0:
                _insert_user(connection, name, "admin", None)

        self._database.write(change)
        with self._lock:
            self._known.clear()
        return self.new_token(name, "embedded")

    def welcome(self, name: str, token: str) -> None:
        """After the rows were changed from outside: forget what was known; `name`, who owns the
        platform's home and holds `token`, is an administrator."""

        def change(connection: Connection) -> None:
            promoted = update(users).where(users.c.name == name).values(role="admin")
            if connection.execute(promoted).rowcount == 0:
                _insert_user(connection, name, "admin", None)
            digest = _digest(token)
            held = connection.execute(select(tokens.c.user).where(tokens.c.digest == digest))
            if token and held.first() is None:
                values = {"digest": digest, "user": name, "label": "embedded"}
                connection.execute(insert(tokens).values(**values, created_at=time.time()))

        if name:
            self._database.write(change)
        with self._lock:
            self._known.clear()

    def register(self, name: str, password: str) -> UserRecord:
        """A new user, who waits for an administrator."""
        if not _NAME.fullmatch(name):
            raise BadInput(
                f"{name[:64]!r} is not a user name", hint="use letters, digits, '.', '_' and '-'"
            )
        if not _SHORTEST_PASSWORD <= len(password) <= _LONGEST_PASSWORD:
            raise BadInput(f"a password has {_SHORTEST_PASSWORD} to {_LONGEST_PASSWORD} characters")
        stored = _scramble(password, secrets.token_bytes(16))
        self._database.write(lambda c: _insert_user(c, name, "pending", stored))
        return self._user(name)

    def sign_in(self, name: str, password: str) -> str:
        """A token for the user with this password."""
        with self._database.read() as connection:
            row = connection.execute(select(users.c.password).where(users.c.name == name)).first()
        # An unknown name costs as much time as a wrong password.
        stored = (row.password if row else None) or _scramble("", b"nobody")
        salt = bytes.fromhex(stored.split("$")[0])
        matches = hmac.compare_digest(_scramble(password[:_LONGEST_PASSWORD], salt), stored)
        if row is None or row.password is None or not matches:
            raise NotSignedIn("wrong name or password")
        return self.new_token(name, "sign-in")

    def user_of(self, token: str) -> UserRecord | None:
        """Who holds this token."""
        digest = _digest(token)
        with self._lock:
            if digest in self._known:
                return self._known[digest]
        query = (
            select(users.c.name, users.c.role, users.c.created_at)
            .join(tokens, tokens.c.user == users.c.name)
            .where(tokens.c.digest == digest)
        )
        with self._lock:
            with self._database.read() as connection:
                row = connection.execute(query).first()
            if row is None:
                return None
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            user = UserRecord(name=row.name, role=row.role, created_at=row.created_at)
            self._known[digest] = user
            return user

    def users(self) -> tuple[UserRecord, ...]:
        """Everyone, by name."""
        query = select(users.c.name, users.c.role, users.c.created_at).order_by(users.c.name)
        with self._database.read() as connection:
            return tuple(
                UserRecord(name=row.name, role=row.role, created_at=row.created_at)
                for row in connection.execute(query)
            )

    def set_role(self, name: str, role: str) -> UserRecord:
        """Change what a user may do. The last administrator stays one."""
        if role not in get_args(Role):
            raise BadInput(f"{role[:64]!r} is not a role", hint="admin, member or pending")

        def change(connection: Connection) -> None:
            rows = connection.execute(select(users.c.name, users.c.role))
            before = {row.name: row.role for row in rows}
            if name not in before:
                raise NotFound(f"no user {name[:64]!r}", hint="list them with: jumar users")
            others = [user for user, held in before.items() if held == "admin" and user != name]
            if role != "admin" and not others:
                raise Conflict(f"{name} is the only administrator")
            connection.execute(update(users).where(users.c.name == name).values(role=role))

        self._database.write(change)
        with self._lock:
            self._known.clear()
        return self._user(name)

    def new_token(self, user: str, label: str) -> str:
        """A secret that stands for `user` until it is taken back."""
        token = f"jm_{secrets.token_urlsafe(32)}"
        values = {"digest": _digest(token), "user": user, "label": label[:128]}
        self._database.write(
            lambda c: c.execute(insert(tokens).values(**values, created_at=time.time()))
        )
        return token

    def revoke(self, token: str) -> None:
        """Take a token back; one that nobody holds is none already."""
        digest = _digest(token)
        self._database.write(lambda c: c.execute(delete(tokens).where(tokens.c.digest == digest)))
        with self._lock:
            self._known.pop(digest, None)

    def login_code(self, user: str) -> str:
        """A secret for one visit to the login page."""
        code = secrets.token_urlsafe(24)

        def change(connection: Connection) -> None:
            now = time.time()
            connection.execute(delete(login_codes).where(login_codes.c.expires_at < now))
            values = {"digest": _digest(code), "user": user, "expires_at": now + _LOGIN_CODE_S}
            connection.execute(insert(login_codes).values(**values))

        self._database.write(change)
        return code

    def redeem_login_code(self, code: str) -> str:
        """A token for the code's user; the code is used up."""

        def change(connection: Connection) -> str | None:
            row = connection.execute(
                delete(login_codes)
                .where(login_codes.c.digest == _digest(code))
                .returning(login_codes.c.user, login_codes.c.expires_at)
            ).first()
            return row.user if row is not None and row.expires_at > time.time() else None

        user = self._database.write(change)
        if user is None:
            raise NotSignedIn(
                "this login link was used already or is too old",
                hint="get a new one with: jumar up --detach",
            )
        return self.new_token(user, "browser")

    def _user(self, name: str) -> UserRecord:
        return next(user for user in self.users() if user.name == name)


def _insert_user(connection: Connection, name: str, role: str, password: str | None) -> None:
    taken = connection.execute(select(users.c.name).where(users.c.name == name)).first()
    if taken is not None:
        raise Conflict(f"the name {name!r} is taken")
    connection.execute(
        insert(users).values(name=name, role=role, password=password, created_at=time.time())
    )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _scramble(password: str, salt: bytes) -> str:
    key = hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1)
    return f"{salt.hex()}${key.hex()}"
