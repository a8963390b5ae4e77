"""People of a site, as the kernel names them: accounts keyed by uid, and whom jobs run as.

A web account is another person than the Unix account of the same name, until root maps it."""

import pwd
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, insert, select

from jumar.database.access import Database
from jumar.database.tables import users
from jumar.errors import NotAllowed, NotSignedIn, SubmitRefused
from jumar.people.lookups import Lookups
from jumar.spec.names import is_user_name
from jumar.spec.people import UserRecord

NOBODY = 65534
"""What the kernel shows for a uid that has no meaning here, as in a container of another user."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a Unix socket."""

    uid: int
    is_job: bool = False
    """Whether it came through the socket for jobs, or may be a job."""
    is_astray: bool = False
    """Whether it is a job and came through the socket for people."""


@dataclass(frozen=True, slots=True)
class UnixAccount:
    """Whom a job runs as."""

    name: str
    uid: int


class UnixPeople:
    """Thread-safe."""

    def __init__(
        self,
        database: Database,
        admin_group: str,
        mapped: Callable[[], Mapping[str, str]],
        *,
        fences: bool = True,
    ) -> None:
        """`mapped`: Unix accounts by the names of web accounts, as root's file has them now. `fences`:
        whether jobs are given a socket of their own."""
        self._fences = fences
        self._database = database
        self._admin_group = admin_group
        self._mapped = mapped
        self._lookups = Lookups()
        self.on_new: Callable[[], object] = lambda: None
        """Called when somebody has come for the first time."""

    def user_of(self, peer: Peer) -> UserRecord:
        """The account of who calls; made at the first call."""
        if peer.uid == NOBODY:
            raise NotSignedIn("the kernel does not say who calls", hint="call from the host itself")
        if peer.is_astray and self._fences:
            raise NotAllowed(
                "a job may not use the socket for people",
                hint="inside a job, its own is in the usual place: run jumar as it is",
            )
        try:
            unix = self._lookups.by_uid(peer.uid)
        except KeyError:
            raise NotSignedIn(f"uid {peer.uid} has no account on this machine") from None
        found = self._read(peer.uid)
        if found is None:
            self._database.write(lambda connection: _insert(connection, unix))
            self.on_new()
            found = self._read(peer.uid)
        assert found is not None
        user, unix_name = found
        if unix_name != unix.pw_name:
            raise NotAllowed(
                f"uid {peer.uid} belonged to {unix_name} and is now {unix.pw_name}",
                hint="give the new account another uid",
            )
        return replace(user, role="admin") if self._is_admin(peer, unix, user) else user

    def with_admins(self, known: Sequence[UserRecord]) -> list[UserRecord]:
        """The same, with those as administrators whom the group of this machine makes so."""
        query = select(users.c.name, users.c.uid).where(users.c.uid.is_not(None))
        with self._database.read() as connection:
            uids = {row.name: row.uid for row in connection.execute(query)}
        return [
            replace(user, role="admin")
            if self._is_admin_by_name(user, uids.get(user.name))
            else user
            for user in known
        ]

    def _is_admin_by_name(self, user: UserRecord, uid: int | None) -> bool:
        try:
            return uid is not None and self._is_admin(Peer(uid), self._lookups.by_uid(uid), user)
        except KeyError:
            return False

    def account_of(self, name: str) -> UnixAccount:
        """Whom jobs of a user run as; SubmitRefused where nobody has said."""
        query = select(users.c.uid, users.c.unix_name).where(users.c.name == name)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        if row is None or row.uid is None:
            return self._web_account(name)
        if row.uid == 0:
            raise SubmitRefused("jobs do not run as root", hint="submit it as yourself")
        return UnixAccount(row.unix_name, row.uid)

    def _web_account(self, name: str) -> UnixAccount:
        unix_name = self._mapped().get(name)
        if unix_name is None:
            raise SubmitRefused(
                f"{name} has no Unix account on this machine, and jobs run as their submitter",
                hint=f"ask root of the machine to run: jumar users map {name} ACCOUNT",
            )
        try:
            return UnixAccount(unix_name, self._lookups.by_name(unix_name).pw_uid)
        except KeyError:
            raise SubmitRefused(
                f"{name} is mapped to {unix_name}, an account that does not exist"
            ) from None

    def _is_admin(self, peer: Peer, unix: pwd.struct_passwd, user: UserRecord) -> bool:
        if peer.is_job or user.role == "pending":
            return False
        if peer.uid == 0 or user.role == "admin":
            return True
        try:
            gid = self._lookups.group(self._admin_group)
        except KeyError:
            return False
        return gid in self._lookups.groups_of(unix.pw_name, unix.pw_gid)

    def _read(self, uid: int) -> tuple[UserRecord, str] | None:
        query = select(users).where(users.c.uid == uid)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        if row is None:
            return None
        user = UserRecord(name=row.name, role=row.role, created_at=row.created_at)
        return user, row.unix_name


def _insert(connection: Connection, unix: pwd.struct_passwd) -> None:
    """Under the account's own name if nobody has it, else with its uid."""
    if connection.execute(select(users.c.name).where(users.c.uid == unix.pw_uid)).first():
        return
    taken = set(connection.scalars(select(users.c.name)))
    numbered = f"{unix.pw_name[:48]}.{unix.pw_uid}"
    wanted = (unix.pw_name, numbered, f"uid-{unix.pw_uid}", *(f"{numbered}.{n}" for n in range(99)))
    name = next(name for name in wanted if is_user_name(name) and name not in taken)
    values = {"name": name, "role": "member", "password": None, "created_at": time.time()}
    connection.execute(insert(users).values(**values, uid=unix.pw_uid, unix_name=unix.pw_name))
