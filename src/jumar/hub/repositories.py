"""The repositories: rows in the database, bare git folders beside them, and who may do what.

The row is the truth. A folder is made before its row and removed after it; one without a row is swept."""

import json
import logging
import os
import secrets
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from jumar.aging import clock_of
from jumar.database.access import Database
from jumar.database.tables import (
    group_members,
    groups,
    hub_links,
    hub_locks,
    hub_repos,
    users,
)
from jumar.errors import BadInput, NameTaken, NotAllowed, NotFound, NotSignedIn
from jumar.hub import card as cards
from jumar.hub.gitting import GitFailed, git
from jumar.hub.names import Kind, check_repo_name, kind_of
from jumar.hub.plain import LARGE
from jumar.hub.quota import Quota
from jumar.hub.reading import head_of, text_at
from jumar.spec.people import UserRecord
from jumar.spec.repos import RepoRecord

log = logging.getLogger(__name__)
PLAIN_LIMIT = 10 << 20
_README_BYTES = 1 << 20
_SWEEP_AFTER_S = 24 * 3600
_ATTRIBUTES = "".join(f"*.{ending} filter=lfs diff=lfs merge=lfs -text\n" for ending in LARGE)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the site allows."""

    plain_bytes: int = PLAIN_LIMIT
    """The largest file that need not be in LFS."""
    push_bytes: int = 4 << 30
    """The largest pack of a push."""
    object_bytes: int = 512 << 30
    quota_bytes: int = 0
    """What all repositories of one owner may take; 0 means no limit."""
    disk_bytes: int = 0
    """What they may take together with all else of that owner."""


class Repositories:
    """Thread-safe."""

    def __init__(self, database: Database, home: Path, limits: Limits | None = None) -> None:
        self.database = database
        self.home = home / "hub"
        self.clock = clock_of(home)
        """Asked before anything is removed for its age."""
        self.limits = limits or Limits()
        self.quota = Quota(self.limits.quota_bytes, self.limits.disk_bytes)
        self._changing: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def folder(self, repo: RepoRecord) -> Path:
        """Where its git folder is."""
        return self.home / "repos" / f"{repo.id}.git"

    def has_owner(self, name: str) -> bool:
        """Whether a user or a group is called so, without regard to case."""
        with self.database.read() as connection:
            return any(
                connection.execute(
                    select(table.c.name).where(func.lower(table.c.name) == name.lower())
                ).first()
                for table in (users, groups)
            )

    def changing(self, repo: RepoRecord) -> threading.Lock:
        """Held by who makes a commit on the server, so that two come one after the other."""
        with self._lock:
            return self._changing.setdefault(repo.id, threading.Lock())

    def create(
        self, user: UserRecord, kind: str, name: str, *, owner: str = "", private: bool = False
    ) -> RepoRecord:
        """A new repository of `user`, or of a group that they are in."""
        owner = owner or user.name
        known = kind_of(kind)
        check_repo_name(owner, name)
        if owner != user.name and not self._may_write(user, owner):
            raise NotAllowed(
                f"{user.name} may not create repositories for {owner!r}",
                hint="leave out the owner, or name a group that you are in",
            )
        self._check_quota(owner, 0)
        repo_id, now = secrets.token_hex(8), time.time()
        folder = self.home / "repos" / f"{repo_id}.git"
        values = {
            "id": repo_id,
            "kind": known,
            "owner": owner,
            "name": name,
            "folded": _folded(known, owner, name),
            "private": private,
            "created_at": now,
            "changed_at": now,
        }
        try:
            _make(folder, known, user.name)
            self.database.write(lambda c: _insert(c, values))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return self.get(kind, owner, name)

    def find(self, kind: str, owner: str, name: str) -> RepoRecord | None:
        """The repository of this name, whoever asks."""
        query = select(hub_repos).where(hub_repos.c.folded == _folded(kind, owner, name))
        return self._one(query)

    def by_id(self, repo_id: str) -> RepoRecord | None:
        """The repository of this id, whoever asks."""
        return self._one(select(hub_repos).where(hub_repos.c.id == repo_id))

    def get(self, kind: str, owner: str, name: str) -> RepoRecord:
        """The same, which must exist."""
        found = self.find(kind, owner, name)
        if found is None:
            raise not_found(kind, owner, name)
        return found

    def readable(self, user: UserRecord | None, kind: str, owner: str, name: str) -> RepoRecord:
        """The repository, if `user` may read it; to all others it does not exist."""
        found = self.find(kind, owner, name)
        if found is None or (found.private and not self._may_read(user, found)):
            raise not_found(kind, owner, name)
        return found

    def writable(self, user: UserRecord | None, kind: str, owner: str, name: str) -> RepoRecord:
        """The repository, if `user` may change it."""
        found = self.readable(user, kind, owner, name)
        if user is None:
            raise NotSignedIn(
                "sign in to change a repository", hint="use a token: jumar tokens create"
            )
        if not self._may_write(user, found.owner):
            raise NotAllowed(
                f"{user.name} may not write to {found.owner}/{found.name}",
                hint="only its owner, the members of its group and administrators may",
            )
        return found

    def search(
        self,
        user: UserRecord | None,
        *,
        kind: Kind | None = None,
        text: str = "",
        owner: str = "",
        start: int = 0,
        most: int = 100,
    ) -> tuple[RepoRecord, ...]:
        """What `user` may see, the latest changed first."""
        query = select(hub_repos)
        if kind is not None:
            query = query.where(hub_repos.c.kind == kind)
        if owner:
            query = query.where(hub_repos.c.owner == owner)
        for word in text.lower().split()[:8]:
            escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            matches = func.lower(hub_repos.c.folded + " " + hub_repos.c.card)
            query = query.where(matches.like(f"%{escaped}%", escape="\\"))
        if user is None:
            query = query.where(hub_repos.c.private.is_(False))
        elif user.role != "admin":
            mine = {user.name, *self.groups_of(user.name)}
            query = query.where(hub_repos.c.private.is_(False) | hub_repos.c.owner.in_(mine))
        query = query.order_by(hub_repos.c.changed_at.desc(), hub_repos.c.id)
        with self.database.read() as connection:
            rows = connection.execute(query.offset(start).limit(most)).all()
        return tuple(_record(row) for row in rows)

    def set_private(self, repo: RepoRecord, private: bool) -> None:
        """Show it to all, or to its owner only."""
        change = update(hub_repos).where(hub_repos.c.id == repo.id).values(private=private)
        self.database.write(lambda c: c.execute(change))

    def delete(self, repo: RepoRecord) -> None:
        """Forget a repository, then remove its folder."""

        def change(connection: Connection) -> None:
            for table in (hub_locks, hub_links):
                connection.execute(delete(table).where(table.c.repo == repo.id))
            connection.execute(delete(hub_repos).where(hub_repos.c.id == repo.id))

        with self.changing(repo):
            self.database.write(change)
            shutil.rmtree(self.folder(repo), ignore_errors=True)

    def check_exists(self, repo: RepoRecord) -> None:
        """RepoNotFound where it was deleted since it was looked up."""
        if self._one(select(hub_repos).where(hub_repos.c.id == repo.id)) is None:
            raise not_found(repo.kind, repo.owner, repo.name)

    def refresh(self, repo: RepoRecord) -> None:
        """After a change: what lists and searches say of it, and how much room it takes."""
        folder = self.folder(repo)
        commit = head_of(folder)
        readme = text_at(folder, commit, "README.md", _README_BYTES) if commit else ""
        values = {
            "changed_at": time.time(),
            "card": json.dumps(cards.card_of(readme), ensure_ascii=False),
            "git_bytes": _bytes_below(folder),
        }
        change = update(hub_repos).where(hub_repos.c.id == repo.id).values(**values)
        self.database.write(lambda c: c.execute(change))

    def measure(self, repo: RepoRecord) -> None:
        """Write down how much room its git folder takes."""
        size = _bytes_below(self.folder(repo))
        change = update(hub_repos).where(hub_repos.c.id == repo.id).values(git_bytes=size)
        self.database.write(lambda c: c.execute(change))

    def check_room(self, repo: RepoRecord, more: int) -> None:
        """TooLarge where `more` bytes would be over what its owner may store."""
        self._check_quota(repo.owner, more)

    def pack_limit(self, repo: RepoRecord) -> int:
        """The largest pack that may be pushed now; TooLarge where its owner has no room left."""
        self._check_quota(repo.owner, 1)
        with self.database.read() as connection:
            left = self.quota.left(connection, repo.owner)
        return self.limits.push_bytes if left is None else min(self.limits.push_bytes, left)

    def all(self) -> list[RepoRecord]:
        """Every repository, whoever asks."""
        with self.database.read() as connection:
            return [_record(row) for row in connection.execute(select(hub_repos))]

    def groups_of(self, user: str) -> list[str]:
        """The groups whose repositories are those of `user` too."""
        query = select(group_members.c.group).where(group_members.c.user == user)
        with self.database.read() as connection:
            return [row[0] for row in connection.execute(query)]

    def sweep(self) -> None:
        """Remove what a killed server left: folders without a row, uploads that nobody ends."""
        with self.database.read() as connection:
            known = {f"{row[0]}.git" for row in connection.execute(select(hub_repos.c.id))}
        if not self.clock.is_left_alone(_SWEEP_AFTER_S):
            return
        before = time.time() - _SWEEP_AFTER_S
        for path in (*self._in("repos"), *self._in("spool")):
            if path.name not in known and _is_older(path, before):
                log.info("removing %s, which no repository needs", path)
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def _in(self, folder: str) -> list[Path]:
        place = self.home / folder
        return list(place.iterdir()) if place.is_dir() else []

    def _check_quota(self, owner: str, more: int) -> None:
        with self.database.read() as connection:
            self.quota.check(connection, owner, more)

    def _may_read(self, user: UserRecord | None, repo: RepoRecord) -> bool:
        return user is not None and self._may_write(user, repo.owner)

    def _may_write(self, user: UserRecord, owner: str) -> bool:
        if user.role not in ("member", "admin"):
            return False
        if user.name == owner:
            return True
        if user.role == "admin":
            return self._exists(owner)
        # A user is no group, even where both have one name.
        return owner in self.groups_of(user.name) and not self._is_user(owner)

    def _exists(self, owner: str) -> bool:
        query = select(groups.c.name).where(groups.c.name == owner)
        with self.database.read() as connection:
            found = connection.execute(query).first()
        return found is not None or self._is_user(owner)

    def _is_user(self, name: str) -> bool:
        with self.database.read() as connection:
            return (
                connection.execute(select(users.c.name).where(users.c.name == name)).first()
                is not None
            )

    def _one(self, query: Any) -> RepoRecord | None:
        with self.database.read() as connection:
            row = connection.execute(query).first()
        return None if row is None else _record(row)


class RepoNotFound(NotFound):
    """No such repository, or none that who asks may see."""


def not_found(kind: str, owner: str, name: str) -> RepoNotFound:
    """The same for what does not exist and for what may not be seen."""
    return RepoNotFound(
        f"no {kind} repository {owner[:64]}/{name[:100]}",
        hint=f"list them: jumar repo list; make one: jumar repo create {kind} NAME",
    )


def _folded(kind: str, owner: str, name: str) -> str:
    return f"{kind}/{owner}/{name}".lower()


def _insert(connection: Connection, values: dict[str, Any]) -> None:
    try:
        connection.execute(insert(hub_repos).values(**values))
    except IntegrityError as error:
        raise NameTaken(
            f"there is a {values['kind']} repository {values['owner']}/{values['name']} already"
        ) from error


def _is_older(path: Path, than: float) -> bool:
    try:
        return path.lstat().st_mtime < than
    except FileNotFoundError:
        # An upload that has ended a moment ago.
        return False


def _record(row: Row[Any]) -> RepoRecord:
    card = cast("dict[str, Any]", json.loads(row.card))
    return RepoRecord(
        id=row.id,
        kind=row.kind,
        owner=row.owner,
        name=row.name,
        private=row.private,
        created_at=row.created_at,
        changed_at=row.changed_at,
        licence=cards.licence_of(card),
        tags=cards.tags_of(card),
    )


def _make(folder: Path, kind: str, user: str) -> None:
    folder.mkdir(parents=True)
    try:
        git(folder, "init", "-q", "--bare", "-b", "main", "--template=", ".")
        if kind != "project":
            # Clients of Hugging Face take a repository without a commit for a broken one. A project
            # begins empty, so that an existing one can be pushed to it.
            git(folder, "fast-import", "--quiet", given=_first_commit(user))
    except GitFailed as error:
        log.warning("git init failed: %s", error.said)
        raise BadInput("the repository cannot be created", hint=error.hint) from error


def _first_commit(user: str) -> bytes:
    who, content = f"{user} <{user}@jumar> {int(time.time())} +0000", _ATTRIBUTES.encode()
    head = f"commit refs/heads/main\nauthor {who}\ncommitter {who}\ndata 14\nInitial commit\n"
    file = f"M 100644 inline .gitattributes\ndata {len(content)}\n"
    return head.encode() + file.encode() + content + b"\n"


def _bytes_below(folder: Path) -> int:
    total = 0
    for place, _folders, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except FileNotFoundError:
                continue
    return total
