"""Checkpoints in parts that are put back after an attempt: all as in their last complete save, and only where it is
sure that what is there is of no save. Ranks that have gone on lose nothing by a guess."""

import contextlib
import errno
import os
import time
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from . import beneath, copies, rank_sets, room, saves, search
from .copies import dated
from .store import SetVersion, Store
from .verdict import COMPLETE

_NO_WAY = (errno.ELOOP, errno.ENOTDIR)


class Back(NamedTuple):
    """What was put back: files of one save."""

    key: str
    names: Tuple[str, ...]
    is_all: bool
    """Not of files that turned out to be saved each for itself: then those alone that were torn or missing."""
    aside: Optional[str]
    """Where that is which was replaced."""


class Wanted(NamedTuple):
    """A version, and those of its files that are to be put back."""

    version: SetVersion
    names: Tuple[str, ...]

    @property
    def paths(self) -> List[str]:
        """Where they are kept."""
        return [os.path.join(self.version.folder, name) for name in self.names]


class SetsBack:
    """Of one place."""

    def __init__(self, source: str, store: Store, worlds: FrozenSet[int]) -> None:
        self._source, self._store, self._worlds = source, store, worlds

    def wanted(self, there: Sequence[str], until: float) -> Tuple[List[Wanted], List[Wanted]]:
        """What to put back where files are torn, missing or of two saves, and where all are missing. `there`: the
        names of all files in the place."""
        broken: List[Wanted] = []
        missing: List[Wanted] = []
        for versions in self._store.sets().values():
            version = next((v for v in reversed(versions) if _is_whole(v, there)), None)
            if time.monotonic() > until:
                break
            if version is None:
                continue
            gone = [name for name in version.names if not self._is_there(name)]
            if len(gone) == len(version.names):
                missing.append(Wanted(version, version.names))
            else:
                lacking = tuple(self._of_broken(version, gone))
                broken += [Wanted(version, lacking)] if lacking else []
        return broken, missing

    def _path(self, name: str) -> str:
        return os.path.join(self._source, name)

    def _is_there(self, name: str) -> bool:
        """In doubt, as when a file server does not answer."""
        try:
            os.lstat(self._path(name))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True

    def _of_broken(self, version: SetVersion, gone: List[str]) -> Sequence[str]:
        """Which files to put back, if any."""
        now = {name: dated(self._path(name)) for name in version.names if name not in gone}
        if None in now.values():
            # A link, a folder: the script saves in another way by now.
            return ()
        if any(search.is_being_written(self._path(name), self._source) for name in now):
            # By another job in the same folder: no rank of this one runs.
            return ()
        news = [name for name in now if now[name] != dated(os.path.join(version.folder, name))]
        if set(version.worlds) - self._worlds and len(news) in self._worlds:
            # The ranks are fewer by now, and all of them have saved.
            return ()
        if not version.is_loose and not gone and not self._are_of_one(version, len(news)):
            return version.names
        lacking = gone + [name for name in now if self._is_torn(version, name)]
        return lacking if version.is_loose or not lacking else version.names

    def _is_torn(self, version: SetVersion, name: str) -> bool:
        return search.is_torn(self._path(name), os.path.join(version.folder, name))

    def _are_of_one(self, version: SetVersion, news: int) -> bool:
        """Whether the files may be of one save, by their times. `news`: so many are others than in the version."""
        now = [dated(self._path(name)) for name in version.names]
        was = [dated(os.path.join(version.folder, name)) for name in version.names]
        seen = version.seen or was
        changed = sum(one != before for one, before in zip(now, seen))
        if not news or not changed:
            return True
        if len(now) > min(news, changed):
            return False
        times = [[one[1] for one in states if one is not None] for states in (now, seen)]
        return not saves.are_of_two(times[0], times[1], version.pause_s)

    def put(self, wanted: Wanted) -> Optional[Back]:
        """All in their places; None where something of the job's is in the way. Whoever is killed meanwhile leaves
        some of them new and some old, which the next one mends."""
        version, names = wanted
        os.makedirs(self._source, exist_ok=True)
        others = [
            name
            for name in names
            if dated(self._path(name)) != dated(os.path.join(version.folder, name))
            or self._is_torn(version, name)
        ]
        aside = self._store.put_aside(self._source, others)
        try:
            room.put(
                lambda beside: self._put_all(version, others, beside),
                [self._path(name) for name in others if self._is_to_go(version, name)],
                self._source,
            )
        except OSError as error:
            if error.errno not in _NO_WAY:
                raise
            return None
        return Back(version.key, names, names == version.names, aside)

    def _is_to_go(self, version: SetVersion, name: str) -> bool:
        return room.is_to_go(self._path(name), os.path.join(version.folder, name))

    def _put_all(self, version: SetVersion, names: Sequence[str], beside: room.Beside) -> None:
        """Copies of all first, as there may not be enough room; then their names."""
        root = os.path.realpath(self._store.root)
        folders: Dict[str, int] = {}
        made: List[Tuple[int, str, str]] = []
        with contextlib.ExitStack() as stack:
            for name in names:
                above, last = os.path.split(name)
                if above not in folders:
                    folders[above] = beneath.make_folder(self._source, above)
                    stack.callback(os.close, folders[above])
                with copies.taken(os.path.join(version.folder, name), root) as kept:
                    aside = beside(kept.fileno(), folders[above], last)
                stack.callback(copies.unlink, aside, folders[above])
                made.append((folders[above], aside, last))
            for folder, aside, name in made:
                os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)


def _is_whole(version: SetVersion, there: Sequence[str]) -> bool:
    """Whether it can be put back, and has a file for each that is there: more ranks are another training's."""
    if not version.is_as_kept:
        return False
    if not {name for name in there if rank_sets.is_of(name, version.key)} <= set(version.names):
        return False
    paths = (os.path.join(version.folder, name) for name in version.names)
    return all(search.judge(path).state == COMPLETE for path in paths)
