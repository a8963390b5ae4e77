"""Who may use the platform: users, roles, passwords and one-time login codes; `tokens` has the rest."""

import secrets
import time
from dataclasses import dataclass
from typing import Literal, get_args

from sqlalchemy import Connection, delete, insert, select, update

from jumar.database.access import Database
from jumar.database.tables import (
    jobs,
    login_codes,
    oidc_identities,
    quotas,
    share_links,
    ssh_keys,
    tokens,
    users,
)
from jumar.errors import (
    BadInput,
    Conflict,
    NameTaken,
    NotAllowed,
    NotSignedIn,
    UserNotFound,
    WrongPassword,
)
from jumar.people.audit import Audit
from jumar.people.links import Links
from jumar.people.passwords import check_password, is_dated, matches, scramble
from jumar.people.ssh_keys import SshKeys
from jumar.people.tokens import SESSION_S, Proof, Tokens, digest
from jumar.spec.names import USER_NAME_RULE, is_user_name
from jumar.spec.people import GivenPassword, UserRecord

Role = Literal["admin", "member", "pending"]
_LOGIN_CODE_S = 3600
_GIVEN_PASSWORD_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the table has of a user's password."""

    password: str | None
    until: float | None

    @property
    def is_good(self) -> bool:
        return self.until is None or self.until > time.time()


class Accounts:
    """Users and what they prove themselves with."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.tokens = Tokens(database)
        self.ssh_keys = SshKeys(database)
        self.links = Links(database)
        self.audit = Audit(database)

    def bootstrap(self, name: str) -> str:
        """Make `name`, who owns the platform's home, an administrator; a fresh token for them."""

        self._database.write(lambda c: _make_admin(c, name))
        self.tokens.forget()
        return self.tokens.new(name, "embedded", kind="server").token

    def welcome(self, name: str, token: str) -> None:
        """After the rows were changed from outside: forget what was known; `name`, who owns the
        platform's home and holds `token`, is an administrator."""

        def change(connection: Connection) -> None:
            _make_admin(connection, name)
            if token:
                self.tokens.readmit(connection, name, token)

        if name:
            self._database.write(change)
        self.tokens.forget()

    def register(self, name: str, password: str) -> UserRecord:
        """A new user, who waits for an administrator."""
        if not is_user_name(name):
            raise BadInput(f"{name[:64]!r} is not a user name", hint=USER_NAME_RULE)
        check_password(password)
        stored = scramble(password)
        self._database.write(lambda c: _insert_user(c, name, "pending", stored))
        return self._user(name)

    def sign_in(self, name: str, password: str, label: str = "sign-in") -> str:
        """A token for the user with this password."""
        stored = self._stored(name)
        # An unknown name takes as long as a wrong password.
        if not matches(password, stored.password if stored.is_good else None):
            raise WrongPassword("wrong name or password")
        if stored.password is not None and is_dated(stored.password):
            stored = self._renew(name, stored, password)
        made = self.tokens.new(
            name, label, kind="session", lasts_s=SESSION_S, proof=_unchanged(name, stored)
        )
        return made.token

    def _renew(self, name: str, stored: "_Stored", password: str) -> "_Stored":
        """Store a password as passwords are stored now; one that was changed meanwhile stays."""
        renewed = scramble(password)
        same = (users.c.name == name) & (users.c.password == stored.password)
        self._database.write(
            lambda c: c.execute(update(users).where(same).values(password=renewed))
        )
        return self._stored(name)

    def change_password(self, name: str, old: str, new: str, *, keep: str) -> None:
        """Another password for a user who knows the old one, or has none yet; all sessions but that
        of the token `keep` end. Tokens that the user made and named stay."""
        check_password(new)
        before = self._stored(name)
        if before.password and not old:
            raise NotAllowed("you already have a password: enter it too", hint="leave out --first")
        if before.password and not (before.is_good and matches(old, before.password)):
            raise NotAllowed(
                "the old password is wrong",
                hint="if you forgot it, an administrator can run: jumar users reset NAME",
            )
        stored = scramble(new)

        def change(connection: Connection) -> None:
            _unchanged(name, before)(connection)
            _set_password(connection, name, stored, until=None)
            sessions = tokens.c.user == name, tokens.c.kind == "session"
            connection.execute(delete(tokens).where(*sessions, tokens.c.digest != digest(keep)))

        self._database.write(change)
        self.tokens.forget()

    def reset_password(self, name: str) -> GivenPassword:
        """A password for a user to begin anew with, good for a day. All that proved the old self
        ends: sessions, tokens, login links. The home's own commands stay signed in: who reads
        their file is the home's owner, password or not."""
        if not is_user_name(name):
            raise _nobody(name)
        password, until = secrets.token_urlsafe(12), time.time() + _GIVEN_PASSWORD_S
        stored = scramble(password)

        def change(connection: Connection) -> None:
            _set_password(connection, name, stored, until=until)
            connection.execute(
                delete(tokens).where(tokens.c.user == name, tokens.c.kind != "server")
            )

        self._database.write(change)
        self.tokens.forget()
        return GivenPassword(name=name, password=password, expires_at=until)

    def users(self) -> tuple[UserRecord, ...]:
        """Everyone, by name."""
        query = select(users.c.name, users.c.role, users.c.created_at).order_by(users.c.name)
        with self._database.read() as connection:
            return tuple(
                UserRecord(name=row.name, role=row.role, created_at=row.created_at)
                for row in connection.execute(query)
            )

    def check_user(self, name: str) -> None:
        """NotFound where there is nobody of this name."""
        if not any(user.name == name for user in self.users()):
            raise _nobody(name)

    def set_role(self, name: str, role: str) -> UserRecord:
        """Change what a user may do. The last administrator stays one."""
        if role not in get_args(Role):
            raise BadInput(f"{role[:64]!r} is not a role", hint="admin, member or pending")

        def change(connection: Connection) -> None:
            rows = connection.execute(select(users.c.name, users.c.role))
            before = {row.name: row.role for row in rows}
            if name not in before:
                raise _nobody(name)
            others = [user for user, held in before.items() if held == "admin" and user != name]
            if before[name] == "admin" and role != "admin" and not others:
                raise Conflict(f"{name} is the only administrator")
            connection.execute(update(users).where(users.c.name == name).values(role=role))

        self._database.write(change)
        self.tokens.forget()
        return self._user(name)

    def reject(self, name: str) -> None:
        """Forget somebody who waits for approval; Conflict for who was let in before."""

        def change(connection: Connection) -> None:
            role = connection.execute(select(users.c.role).where(users.c.name == name)).scalar()
            if role is None:
                raise _nobody(name)
            known = connection.execute(select(jobs.c.seq).where(jobs.c.user == name).limit(1))
            if role != "pending" or known.first() is not None:
                raise Conflict(
                    f"{name} was approved before", hint="to suspend them, make them pending"
                )
            for table in (tokens, login_codes, ssh_keys, share_links, oidc_identities, quotas):
                connection.execute(delete(table).where(table.c.user == name))
            connection.execute(delete(users).where(users.c.name == name))

        self._database.write(change)
        self.tokens.forget()

    def revoke(self, token: str) -> None:
        """Take a token back; one that nobody holds is none already."""
        self.tokens.revoke(token)

    def login_code(self, user: str, proof: Proof | None = None) -> str:
        """A secret for one visit to the login page; `proof` as for a new token."""
        code = secrets.token_urlsafe(24)

        def change(connection: Connection) -> None:
            if proof is not None:
                proof(connection)
            now = time.time()
            connection.execute(delete(login_codes).where(login_codes.c.expires_at < now))
            values = {"digest": digest(code), "user": user, "expires_at": now + _LOGIN_CODE_S}
            connection.execute(insert(login_codes).values(**values))

        self._database.write(change)
        return code

    def redeem_login_code(self, code: str) -> str:
        """A token for the code's user; the code is used up."""
        wanted = login_codes.c.digest == digest(code)
        with self._database.read() as connection:
            row = connection.execute(select(login_codes.c.user).where(wanted)).first()
        if row is None:
            raise _code_is_over()

        def use_up(connection: Connection) -> None:
            used = delete(login_codes).where(wanted).returning(login_codes.c.expires_at)
            found = connection.execute(used).first()
            if found is None or found.expires_at <= time.time():
                raise _code_is_over()

        made = self.tokens.new(row.user, "browser", kind="session", lasts_s=SESSION_S, proof=use_up)
        return made.token

    def _stored(self, name: str) -> "_Stored":
        if not is_user_name(name):
            return _Stored(None, None)
        with self._database.read() as connection:
            return _stored(connection, name)

    def _user(self, name: str) -> UserRecord:
        return next(user for user in self.users() if user.name == name)


def _make_admin(connection: Connection, name: str) -> None:
    promoted = update(users).where(users.c.name == name).values(role="admin")
    if connection.execute(promoted).rowcount == 0:
        _insert_user(connection, name, "admin", None)


def _insert_user(connection: Connection, name: str, role: str, password: str | None) -> None:
    taken = connection.execute(select(users.c.name).where(users.c.name == name)).first()
    if taken is not None:
        raise NameTaken(f"the user name {name!r} is taken")
    connection.execute(
        insert(users).values(name=name, role=role, password=password, created_at=time.time())
    )


def _set_password(connection: Connection, name: str, stored: str, *, until: float | None) -> None:
    changed = update(users).where(users.c.name == name)
    if connection.execute(changed.values(password=stored, password_until=until)).rowcount == 0:
        raise _nobody(name)
    # A link that was asked for under the old password would open the account under the new one.
    connection.execute(delete(login_codes).where(login_codes.c.user == name))


def _stored(connection: Connection, name: str) -> _Stored:
    query = select(users.c.password, users.c.password_until).where(users.c.name == name)
    row = connection.execute(query).first()
    return _Stored(None, None) if row is None else _Stored(row.password, row.password_until)


def _unchanged(name: str, before: _Stored) -> Proof:
    """Hashing takes long: meanwhile the password that was right may have been replaced."""

    def check(connection: Connection) -> None:
        if _stored(connection, name) != before:
            raise NotSignedIn("the password was changed in the meantime")

    return check


def _code_is_over() -> NotSignedIn:
    return NotSignedIn(
        "this login link has expired or was already used",
        hint="get a new one with: jumar up --detach",
    )


def _nobody(name: str) -> UserNotFound:
    return UserNotFound(f"no user {name[:64]!r}", hint="list them with: jumar users")
