"""Removes what nothing refers to: LFS objects, files of commits that no job names, old git objects.

An object goes only if no repository has it, and a repository lets go of one only if none of its refs
reaches it, looked at while no push can change them. Objects that were sent and wait for their push
have a day. A repository that cannot be read keeps all, and all objects stay with it."""

import logging
import os
import re
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from jumar.errors import JumarError
from jumar.hub.checkouts import Checkouts
from jumar.hub.gitting import GitFailed, git
from jumar.hub.objects import Objects
from jumar.hub.pre_receive import MOST_POINTER_BYTES
from jumar.hub.pushing import undisturbed
from jumar.hub.reading import blobs
from jumar.hub.repositories import Repositories
from jumar.rounds import Rounds
from jumar.spec.repos import CollectedRecord, RepoRecord

log = logging.getLogger(__name__)
DAY_S = 24 * 3600.0
_LIMIT_S = 1800.0
_LOOK_EVERY_S = 600.0
_DEAD_FOR_S = 3600.0
_MOST_LOOSE = 1000
_MOST_PACKS = 20
_EXPIRE = "--expire=14.days.ago"
_AT_ONCE = 2000
# Wider than what we write: any form that some git-lfs would take for a pointer keeps its object.
_NAMED = re.compile(rb"sha256:([0-9a-f]{64})")


class Collector:
    """Thread-safe; two at once do the same work twice and nothing else."""

    def __init__(self, repositories: Repositories, objects: Objects, checkouts: Checkouts) -> None:
        self._repositories = repositories
        self._objects = objects
        self._checkouts = checkouts

    def collect(
        self,
        *,
        unused_s: float = DAY_S,
        dead_for_s: float = _DEAD_FOR_S,
        ending: threading.Event | None = None,
    ) -> CollectedRecord:
        """Remove what has not been needed for `unused_s`; objects, once nobody has had them for
        `dead_for_s`. Set `ending` to have it leave the rest for another time."""
        if not self._repositories.clock.is_left_alone(max(unused_s, dead_for_s)):
            log.warning("nothing is removed from the hub: the clock was set not long ago")
            return CollectedRecord(forgotten=0, objects=0, bytes=0, checkouts=0, skipped=0)
        cut = time.time() - unused_s
        forgotten = skipped = 0
        for repo in self._repositories.all():
            if ending is not None and ending.is_set():
                break
            try:
                forgotten += self._forget(repo, cut)
                self._tidy(repo)
            except JumarError as error:
                said = error.said if isinstance(error, GitFailed) else ""
                log.warning("repository %s is not cleaned up: %s %s", repo.id, error, said)
                skipped += 1
        count, size = self._bury(cut, dead_for_s)
        trees = self._checkouts.collect(cut)
        self._repositories.sweep()
        return CollectedRecord(
            forgotten=forgotten, objects=count, bytes=size, checkouts=trees, skipped=skipped
        )

    def _forget(self, repo: RepoRecord, cut: float) -> int:
        """How many objects the repository let go of."""
        folder = self._repositories.folder(repo)
        old = self._objects.untouched(repo, cut)
        # First without the lock, which holds up pushes: mostly there is nothing to be done.
        if not old or not old - reached(folder):
            return 0
        with undisturbed(folder) as alone:
            if not alone:
                return 0
            return self._objects.forget(repo, old - reached(folder), cut)

    def _bury(self, cut: float, dead_for_s: float) -> tuple[int, int]:
        dead = self._objects.dead(dead_for_s)
        lost = self._objects.without_row(cut)
        if not dead and not lost:
            return 0, 0
        # By the rows nobody has them. But rows can be those of a backup, older than the repositories.
        needed: set[str] = set()
        try:
            for repo in self._repositories.all():
                needed |= reached(self._repositories.folder(repo))
        except JumarError as error:
            log.warning("no objects are deleted: a repository cannot be read: %s", error)
            return 0, 0
        return self._objects.bury(dead - needed, [one for one in lost if one.oid not in needed])

    def _tidy(self, repo: RepoRecord) -> None:
        """Pushes leave small packs and single objects; too many of them make git slow."""
        folder = self._repositories.folder(repo)
        if not _is_untidy(folder / "objects"):
            return
        git(folder, "repack", "-A", "-d", "-l", "-q", limit_s=_LIMIT_S)
        with undisturbed(folder) as alone:
            if alone:
                git(folder, "prune", _EXPIRE, limit_s=_LIMIT_S)
        self._repositories.measure(repo)


def reached(folder: Path) -> set[str]:
    """The LFS objects that anything in the history of a repository may point to."""
    listed = git(folder, "rev-list", "--objects", "--all", limit_s=_LIMIT_S)
    names = {line.split(b" ", 1)[0] for line in listed.splitlines()}
    checked = git(
        folder,
        "cat-file",
        "--batch-check=%(objectname) %(objecttype) %(objectsize)",
        given=b"".join(name + b"\n" for name in names),
        limit_s=_LIMIT_S,
    )
    small: list[str] = []
    for line in checked.decode().splitlines():
        name, kind, *size = line.split(" ")
        if kind == "missing":
            raise GitFailed(line)
        if kind == "blob" and int(size[0]) <= MOST_POINTER_BYTES:
            small.append(name)
    found: set[str] = set()
    for start in range(0, len(small), _AT_ONCE):
        for content in blobs(folder, small[start : start + _AT_ONCE]).values():
            found.update(oid.decode() for oid in _NAMED.findall(content))
    return found


def _is_untidy(objects: Path) -> bool:
    loose = _count(place for place in _below(objects) if len(place.name) == 2)
    packs = sum(place.suffix == ".pack" for place in _below(objects / "pack"))
    return loose > _MOST_LOOSE or packs > _MOST_PACKS


def _count(folders: Iterable[Path]) -> int:
    return sum(len(_below(folder)) for folder in folders)


def _below(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


class Nightly:
    """Has the collector work once a day, restarts or not."""

    def __init__(self, collector: Collector, home: Path) -> None:
        self._collector = collector
        self._done = home / "hub" / "collected"
        # The end waits not for long: what it does can be cut anywhere.
        self.rounds = Rounds(
            "hub-collector",
            self.do_if_due,
            _LOOK_EVERY_S,
            trouble="the hub was not cleaned up",
            end_s=5,
        )

    def do_if_due(self) -> CollectedRecord | None:
        """What was removed; None while the last time is less than a day ago."""
        if not self._done.exists():
            # A new hub, or one that was never cleaned up: not while the server starts.
            self._done.touch()
        if time.time() - self._done.stat().st_mtime < DAY_S:
            return None
        # Before: one that fails is tried again tomorrow, not every ten minutes.
        os.utime(self._done)
        found = self._collector.collect(ending=self.rounds.ending)
        log.info("the hub was cleaned up: %s", found)
        return found
