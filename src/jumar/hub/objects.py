"""LFS objects: stored once under their SHA-256, linked per repository, hashed before they count.

What a repository may use is what it is linked to. Whether the bytes lie here already is told only to
those who may read a repository that has them; anybody else has to send them."""

import hashlib
import os
import secrets
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import ColumnElement, Connection, delete, exists, insert, select, update

from jumar.database.access import Database
from jumar.database.tables import group_members, hub_links, hub_objects, hub_repos
from jumar.errors import BadInput, NotFound, TooLarge
from jumar.hub.quota import Quota
from jumar.hub.reading import Pointer
from jumar.hub.soundness import SET_ASIDE, Soundness
from jumar.spec.people import UserRecord
from jumar.spec.repos import RepoRecord
from jumar.wholefile import sync

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Stored:
    """An object that a repository has."""

    oid: str
    size: int
    path: Path


class ObjectMissing(NotFound):
    """An LFS object that should be here is missing or damaged."""


class Objects:
    """Thread-safe."""

    def __init__(self, database: Database, home: Path, quota: Quota | None = None) -> None:
        self._database = database
        self._quota = quota or Quota()
        self._home = home / "hub"
        self._stored = self._home / "lfs"
        self.spool = self._home / "spool"
        self._soundness = Soundness()

    def linked(self, repo: RepoRecord, oids: Iterable[str]) -> dict[str, Stored]:
        """Which of them the repository has, whole."""
        wanted = sorted(set(oids))
        found: dict[str, Stored] = {}
        with self._database.read() as connection:
            for some in _pieces(wanted):
                query = (
                    select(hub_objects.c.oid, hub_objects.c.size, hub_objects.c.stored)
                    .join(hub_links, hub_links.c.oid == hub_objects.c.oid)
                    .where(hub_links.c.repo == repo.id, hub_objects.c.oid.in_(some))
                )
                for row in connection.execute(query):
                    found[row.oid] = Stored(row.oid, row.size, self._stored / row.stored)
        return {oid: one for oid, one in found.items() if _is_whole(one)}

    def open(self, repo: RepoRecord, oid: str, path: str = "") -> BinaryIO:
        """The bytes of an object; ObjectMissing names it, and the file that it is for. Of a large one that is
        damaged the error comes with its last block."""
        what = f"the LFS object of {path} (sha256:{oid})" if path else f"LFS object {oid}"
        error = ObjectMissing(
            f"{what} is missing or damaged on the server",
            hint="push it again from a clone that has it: git lfs push --all origin",
        )
        found = self.linked(repo, [oid]).get(oid)
        if found is None:
            raise error
        try:
            return self._soundness.open(found.path, oid, error)
        except FileNotFoundError:
            # Collected, or lost, since then.
            raise error from None

    def missing(self, repo: RepoRecord, wanted: Mapping[str, int]) -> list[str]:
        """Those that the repository does not have in this size; the others are relied on from now."""
        have = self.linked(repo, wanted)
        self._touch(repo, have)
        return [oid for oid, size in wanted.items() if oid not in have or have[oid].size != size]

    def offer(self, user: UserRecord, repo: RepoRecord, wanted: Mapping[str, int]) -> set[str]:
        """Those of `wanted` that need not be sent: the repository has them, or another one has that
        `user` may read, and now this one too."""
        have = {oid for oid, one in self.linked(repo, wanted).items() if one.size == wanted[oid]}
        others = sorted(set(wanted) - have)
        readable = self._readable_elsewhere(user, others, wanted)

        def change(connection: Connection) -> set[str]:
            self._quota.check(connection, repo.owner, sum(wanted[oid] for oid in readable))
            # What was collected meanwhile has to be sent after all.
            return _link(connection, repo.id, sorted(have | readable))

        return self._database.write(change)

    def _readable_elsewhere(
        self, user: UserRecord, oids: list[str], sizes: Mapping[str, int]
    ) -> set[str]:
        mine = select(group_members.c.group).where(group_members.c.user == user.name)
        may_read = (
            hub_repos.c.private.is_(False)
            | (hub_repos.c.owner == user.name)
            | hub_repos.c.owner.in_(mine)
        )
        found: set[str] = set()
        with self._database.read() as connection:
            for some in _pieces(oids):
                query = (
                    select(hub_objects.c.oid, hub_objects.c.size, hub_objects.c.stored)
                    .distinct()
                    .join(hub_links, hub_links.c.oid == hub_objects.c.oid)
                    .join(hub_repos, hub_repos.c.id == hub_links.c.repo)
                    .where(hub_objects.c.oid.in_(some), may_read)
                )
                for row in connection.execute(query):
                    one = Stored(row.oid, row.size, self._stored / row.stored)
                    if row.size == sizes[row.oid] and _is_whole(one):
                        found.add(row.oid)
        return found

    def _touch(self, repo: RepoRecord, oids: Iterable[str]) -> None:
        some = sorted(oids)
        if some:
            self._database.write(lambda c: _link(c, repo.id, some))

    @contextmanager
    def incoming(self, repo: RepoRecord, oid: str | None, size: int) -> Generator["Incoming"]:
        """An upload under way; `keep` makes it count. Without `oid` it is whatever comes, of at most
        `size` bytes."""
        self.spool.mkdir(parents=True, exist_ok=True)
        path = self.spool / secrets.token_hex(16)
        with path.open("xb") as file:
            try:
                yield Incoming(self, repo, oid, size, file, path)
            finally:
                path.unlink(missing_ok=True)

    def keep(self, repo: RepoRecord, oid: str, size: int, path: Path) -> None:
        """A spooled file whose hash was checked becomes the object, and the repository has it."""
        stored = f"{oid[:2]}/{oid[2:4]}/{oid}.{secrets.token_hex(4)}"
        place = self._stored / stored
        place.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, place)
        sync(place.parent)
        self._soundness.vouch(place)

        def change(connection: Connection) -> str:
            found = connection.execute(select(hub_objects).where(hub_objects.c.oid == oid)).first()
            unneeded = ""
            if found is None:
                values = {"oid": oid, "size": size, "stored": stored, "created_at": time.time()}
                connection.execute(insert(hub_objects).values(**values))
            elif _is_whole(Stored(oid, size, self._stored / found.stored)):
                unneeded = stored
            else:
                unneeded = str(found.stored)
                changed = update(hub_objects).where(hub_objects.c.oid == oid)
                connection.execute(changed.values(stored=stored, size=size))
            if not _has(connection, repo.id, oid):
                self._quota.check(connection, repo.owner, size)
            _link(connection, repo.id, [oid])
            return unneeded

        try:
            unneeded = self._database.write(change)
        except (TooLarge, NotFound):
            place.unlink(missing_ok=True)
            raise
        for ending in ("", SET_ASIDE) if unneeded else ():
            (self._stored / (unneeded + ending)).unlink(missing_ok=True)

    def untouched(self, repo: RepoRecord, cut: float) -> set[str]:
        """What the repository has and nobody has relied on since `cut`."""
        query = select(hub_links.c.oid).where(
            hub_links.c.repo == repo.id, hub_links.c.touched_at < cut
        )
        with self._database.read() as connection:
            return {row[0] for row in connection.execute(query)}

    def forget(self, repo: RepoRecord, oids: set[str], cut: float) -> int:
        """Have the repository let go of those that are still untouched; objects that no repository has
        are dead from now."""

        def change(connection: Connection) -> int:
            gone = 0
            for some in _pieces(sorted(oids)):
                which = hub_links.c.oid.in_(some), hub_links.c.touched_at < cut
                unlink = delete(hub_links).where(hub_links.c.repo == repo.id, *which)
                gone += connection.execute(unlink).rowcount
            return gone

        return self._database.write(change)

    def dead(self, for_s: float) -> set[str]:
        """The objects that no repository has, and has not had for this long."""
        now = time.time()

        def change(connection: Connection) -> set[str]:
            dying = update(hub_objects).where(_is_lonely(), hub_objects.c.dead_at.is_(None))
            connection.execute(dying.values(dead_at=now))
            query = select(hub_objects.c.oid).where(
                _is_lonely(), hub_objects.c.dead_at <= now - for_s
            )
            return {row[0] for row in connection.execute(query)}

        return self._database.write(change)

    def without_row(self, cut: float) -> list[Stored]:
        """Files that no row names, older than `cut`: of uploads amid which the server was killed."""
        with self._database.read() as connection:
            known = {row[0] for row in connection.execute(select(hub_objects.c.stored))}
        found: list[Stored] = []
        for place, _folders, names in os.walk(self._stored):
            for path in (Path(place, name) for name in names):
                with suppress(FileNotFoundError):
                    status = path.stat()
                    is_known = path.relative_to(self._stored).as_posix() in known
                    # Renamed into place last of all, which only the second one tells.
                    if not is_known and max(status.st_mtime, status.st_ctime) < cut:
                        found.append(Stored(path.name.partition(".")[0], status.st_size, path))
        return found

    def bury(self, oids: set[str], files: list[Stored]) -> tuple[int, int]:
        """Delete dead objects, unless they were revived meanwhile, and these files; how many objects, and
        how many bytes."""

        def change(connection: Connection) -> list[tuple[str, int]]:
            gone: list[tuple[str, int]] = []
            for some in _pieces(sorted(oids)):
                which = hub_objects.c.oid.in_(some), _is_lonely()
                bury = delete(hub_objects).where(*which, hub_objects.c.dead_at.is_not(None))
                rows = connection.execute(
                    bury.returning(hub_objects.c.stored, hub_objects.c.size)
                ).all()
                gone += [(row.stored, row.size) for row in rows]
            return gone

        buried = self._database.write(change)
        places = [self._stored / stored for stored, _ in buried] + [one.path for one in files]
        for place in places:
            place.unlink(missing_ok=True)
        return len(places), sum(size for _, size in buried) + sum(one.size for one in files)


class Incoming:
    """Bytes of one object, counted and hashed as they come."""

    def __init__(
        self,
        objects: Objects,
        repo: RepoRecord,
        oid: str | None,
        size: int,
        file: BinaryIO,
        path: Path,
    ) -> None:
        self._objects = objects
        self._repo = repo
        self._oid = oid
        self._size = size
        self._file = file
        self._path = path
        self._digest = hashlib.sha256()
        self._received = 0

    def write(self, block: bytes) -> None:
        """Take more; TooLarge once it is more than was announced."""
        self._received += len(block)
        if self._received > self._size:
            raise TooLarge(
                f"LFS object {self._oid or ''}: more than the {self._size} bytes announced came"
            )
        self._digest.update(block)
        self._file.write(block)

    def keep(self) -> Pointer:
        """It was the last byte: the object counts if it is the one that was announced."""
        found = self._digest.hexdigest()
        if self._oid is not None and (self._received != self._size or found != self._oid):
            raise BadInput(
                f"LFS object {self._oid}: what came has {self._received} bytes and SHA-256 {found}",
                hint="the file changed while it was sent, or was damaged on the way; push again",
            )
        self._file.flush()
        os.fsync(self._file.fileno())
        self._objects.keep(self._repo, found, self._received, self._path)
        return Pointer(found, self._received)


def _link(connection: Connection, repo: str, oids: list[str]) -> set[str]:
    """Have the repository rely on those of `oids` that are here; which those are. NotFound."""
    if connection.execute(select(hub_repos.c.id).where(hub_repos.c.id == repo)).first() is None:
        raise NotFound("the repository was deleted meanwhile")
    now = time.time()
    linked: set[str] = set()
    for some in _pieces(oids):
        which = hub_links.c.repo == repo, hub_links.c.oid.in_(some)
        known = {row[0] for row in connection.execute(select(hub_links.c.oid).where(*which))}
        connection.execute(update(hub_links).where(*which).values(touched_at=now))
        alive = select(hub_objects.c.oid).where(hub_objects.c.oid.in_(some))
        new = [row[0] for row in connection.execute(alive) if row[0] not in known]
        if new:
            values = [{"repo": repo, "oid": oid, "touched_at": now} for oid in new]
            connection.execute(insert(hub_links), values)
        revived = update(hub_objects).where(hub_objects.c.oid.in_(some))
        connection.execute(revived.values(dead_at=None))
        linked.update(known, new)
    return linked


def _has(connection: Connection, repo: str, oid: str) -> bool:
    query = select(hub_links.c.oid).where(hub_links.c.repo == repo, hub_links.c.oid == oid)
    return connection.execute(query).first() is not None


def _is_lonely() -> ColumnElement[bool]:
    return ~exists().where(hub_links.c.oid == hub_objects.c.oid)


def _pieces(oids: list[str]) -> Iterable[list[str]]:
    return (oids[start : start + _AT_ONCE] for start in range(0, len(oids), _AT_ONCE))


def _is_whole(one: Stored) -> bool:
    try:
        return one.path.stat().st_size == one.size
    except OSError:
        return False
