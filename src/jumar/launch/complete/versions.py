"""Versions of checkpoints that are written again and again under one name: `N/NAME` in a folder of the
platform's.

A script that overwrites its only file loses both the old and the new one when it is killed meanwhile. So
complete ones are kept: blocks are shared where the file system can, a second name is enough where a script
makes a new file each time, else they are copied. Checkpoints that have numbers in their names are versions
already, and are left alone."""

import errno
import fcntl
import os
import stat
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from . import search
from .verdict import COMPLETE, is_number

_KEPT = 2
_SHARE_BLOCKS = 0x40049409
"""FICLONE of linux/fs.h."""
_BLOCK = 8 << 20
_MOST_SHARE_OF_TIME = 0.02


class Place(NamedTuple):
    """A folder that a job saves to, and the one that versions go to."""

    source: str
    store: str
    since: float = 0.0
    """Only what has changed since then: in a folder that others use too, the rest is not the job's."""


class _State(NamedTuple):
    inode: int
    size: int
    changed_ns: int


class Versions:
    """Of the files in one place; safe while ranks write: a file that changes meanwhile is not kept."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._root = place.store
        self._looked_at: Dict[str, _State] = {}
        self._inodes: Dict[str, int] = {}

    def keep(self, still_s: float = 2.0) -> List[str]:
        """Keep what is complete, has not changed for `still_s` and is not yet kept; the new versions."""
        made: List[str] = []
        for name, path in self._alone():
            state = _state(path)
            if state is None or self._looked_at.get(name) == state:
                continue
            changed = state.changed_ns / 1e9
            if changed < self._place.since or time.time() - changed < still_s:
                continue
            kept = self._keep(name, path, state)
            self._looked_at[name] = state
            made += [] if kept is None else [kept]
        return made

    def restore(self, until: Optional[float] = None) -> List[str]:
        """Put the newest version of each file that is torn, or that is missing while nothing newer is there,
        in its place; what was put. Only while no rank writes."""
        self._remove_leftovers()
        put: List[str] = []
        for name, version in self._wanted(search.soon() if until is None else until):
            path = os.path.join(self._place.source, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _copy(version, path)
            # Another file, but not one that the script has made.
            self._inodes.pop(name, None)
            put.append(path)
        return put

    def _wanted(self, until: float) -> List[Tuple[str, str]]:
        """Names, and the versions to put there."""
        torn: List[Tuple[str, str]] = []
        missing: List[Tuple[str, str]] = []
        for name, versions in self._kept().items():
            if time.monotonic() > until:
                return torn
            whole = [one for one in versions if search.judge(one).state == COMPLETE]
            path = os.path.join(self._place.source, name)
            if whole and not os.path.lexists(path):
                missing.append((name, whole[-1]))
            elif whole and search.is_torn(path, whole[-1]):
                torn.append((name, whole[-1]))
        # Last, since it may take all the time there is; what is torn needs no look at all the others.
        newest_ns = self._newest_ns(until) if missing else 0
        if time.monotonic() > until:
            return torn
        return torn + [one for one in missing if search.changed_ns(one[1]) >= newest_ns]

    def _newest_ns(self, until: float) -> int:
        found = search.survey(self._place.source, until)
        complete = (one.changed_ns for one in found if one.verdict.state == COMPLETE)
        return max(complete, default=0)

    def _alone(self) -> List[Tuple[str, str]]:
        """Files that no others are versions of, by their names within the place."""
        families: Dict[str, List[Tuple[str, str]]] = {}
        for path in search.files(self._place.source):
            name = os.path.relpath(path, self._place.source)
            families.setdefault(search.family_of(name), []).append((name, path))
        return [members[0] for members in families.values() if len(members) == 1]

    def _keep(self, name: str, path: str, state: _State) -> Optional[str]:
        versions = self._kept().get(name, [])
        before, self._inodes[name] = self._inodes.get(name), state.inode
        last = _state(versions[-1]) if versions else None
        if last is not None and (last.size, last.changed_ns) == (state.size, state.changed_ns):
            return None
        if search.judge(path).state != COMPLETE or (last and search.is_torn(path, versions[-1])):
            return None
        to = os.path.join(self._root, str(self._next_number()), name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        # One save may be the first into a file that is then written in place; two files are two saves.
        makes_new_ones = before is not None and before != state.inode
        if not (makes_new_ones and _linked(path, to, state)) and not _copy(path, to, state):
            _remove(to, self._root)
            return None
        for old in versions[: 1 - _KEPT]:
            _remove(old, self._root)
        return to

    def _next_number(self) -> int:
        return max(self._numbers(), default=0) + 1

    def _numbers(self) -> List[int]:
        return sorted(int(name) for name in _listed(self._root) if is_number(name))

    def _kept(self) -> Dict[str, List[str]]:
        """By name, the oldest first."""
        kept: Dict[str, List[str]] = {}
        for number in self._numbers():
            top = os.path.join(self._root, str(number))
            for path in _files(top):
                if not os.path.basename(path).startswith("."):
                    kept.setdefault(os.path.relpath(path, top), []).append(path)
        return kept

    def _remove_leftovers(self) -> None:
        """Of copies that were being made when the one who made them was killed."""
        for path in list(_files(self._root)):
            if os.path.basename(path).startswith("."):
                _remove(path, self._root)


class VersionKeeper:
    """Keeps versions in a thread: of what is there at first, while ranks run, and once more at the end."""

    def __init__(self, places: Sequence[Place], every_s: float = 2.0) -> None:
        # Late: none is made before the ranks of a first attempt have started.
        import threading

        self._versions = [Versions(place) for place in places]
        self._every_s = every_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="versions", daemon=True)
        self.trouble: Optional[OSError] = None

    def start(self) -> "VersionKeeper":
        """Begin, before anybody overwrites what is there."""
        self._thread.start()
        return self

    def close(self, most_s: float = 60.0) -> None:
        """When no rank writes any more; waits for a copy that is being made."""
        self._done.set()
        self._thread.join(most_s)

    def _run(self) -> None:
        took_s = self._look(0.0)
        # In a folder with very many files, a look takes long.
        while not self._done.wait(max(self._every_s, took_s / _MOST_SHARE_OF_TIME)):
            took_s = self._look(self._every_s)
        self._look(0.0)

    def _look(self, still_s: float) -> float:
        began = time.monotonic()
        for versions in self._versions:
            try:
                versions.keep(still_s)
            except OSError as error:
                # No room for a second one: the job goes on without, and whoever closes may tell.
                self.trouble = error
        return time.monotonic() - began


def _state(path: str) -> Optional[_State]:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return _State(status.st_ino, status.st_size, status.st_mtime_ns)


def _listed(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _files(folder: str) -> Iterator[str]:
    for here, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(here, name)


def _aside(path: str) -> str:
    return os.path.join(
        os.path.dirname(path), f".{os.path.basename(path)[:200]}.{os.urandom(4).hex()}"
    )


def _linked(path: str, to: str, state: _State) -> bool:
    """A second name for the file; not where names cannot be shared, nor if it is another file by now."""
    aside = _aside(to)
    try:
        os.link(path, aside, follow_symlinks=False)
    except OSError:
        return False
    if _state(aside) != state:
        _unlink(aside)
        return False
    os.replace(aside, to)
    return True


def _copy(path: str, to: str, state: Optional[_State] = None) -> bool:
    """A copy with the same times, which appears whole; not if `path` is no longer in `state`."""
    import shutil

    aside = _aside(to)
    try:
        with open(path, "rb") as source, open(aside, "xb") as target:
            if not _share(source.fileno(), target.fileno()):
                if state is not None:
                    _check_room(source.fileno(), aside)
                shutil.copyfileobj(source, target, _BLOCK)
            target.flush()
            os.fsync(target.fileno())
        shutil.copystat(path, aside)
        if state is not None and _state(path) != state:
            os.unlink(aside)
            return False
        os.replace(aside, to)
    except FileNotFoundError:
        # Replaced or removed by the job meanwhile.
        _unlink(aside)
        return False
    except OSError:
        _unlink(aside)
        raise
    return True


def _check_room(source: int, target: str) -> None:
    """A version must not take the room that the job needs for its next save."""
    room = os.statvfs(os.path.dirname(target))
    if room.f_bavail * room.f_frsize < 2 * os.fstat(source).st_size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)


def _share(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _SHARE_BLOCKS, source)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        return False
    return True


def _remove(path: str, root: str) -> None:
    """The version, and the folders that it leaves empty."""
    _unlink(path)
    folder = os.path.dirname(path)
    while folder != root:
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
