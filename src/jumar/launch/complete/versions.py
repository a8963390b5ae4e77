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
from typing import BinaryIO, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from . import beneath, search
from .verdict import COMPLETE, is_number

_KEPT = 2
_SHARE_BLOCKS = 0x40049409
"""FICLONE of linux/fs.h."""
_BLOCK = 8 << 20
_LOOK_EVERY_S = 2.0
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
        self._source = os.path.realpath(place.source)
        self._root = place.store
        self._looked_at: Dict[str, _State] = {}
        self._seen: Dict[str, _State] = {}
        self._inodes: Dict[str, int] = {}

    def keep(self, still_s: float = 2.0) -> List[str]:
        """Keep what is complete, has not changed for `still_s` and is not yet kept; the new versions."""
        made: List[str] = []
        for name, path in self._alone():
            state = _state(path)
            if state is None or self._looked_at.get(name) == state:
                continue
            changed, now = state.changed_ns / 1e9, time.time()
            # By a time that is yet to come, since the clock was set back, nothing can be told: by two looks then.
            is_seen_again = changed > now and self._seen.get(name) == state
            self._seen[name] = state
            if changed < self._place.since or (now - changed < still_s and not is_seen_again):
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
            try:
                self._put(name, version)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise
                # The job has put a link or a file where its folder was: there is nowhere to put it.
                continue
            # Another file, but not one that the script has made.
            self._inodes.pop(name, None)
            put.append(os.path.join(self._place.source, name))
        return put

    def _put(self, name: str, version: str) -> None:
        os.makedirs(self._source, exist_ok=True)
        folder = beneath.make_folder(self._source, os.path.dirname(name))
        try:
            with _taken(version, os.path.realpath(self._root)) as kept:
                _copy(kept.fileno(), folder, os.path.basename(name))
        finally:
            os.close(folder)

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
        order = search.Order(self._place.source)
        newest = order(newest_ns)
        return torn + [one for one in missing if order(search.changed_ns(one[1])) >= newest]

    def _newest_ns(self, until: float) -> int:
        found = search.survey(self._place.source, until)
        complete = (one.changed_ns for one in found if one.verdict.state == COMPLETE)
        return max(complete, key=search.Order(self._place.source), default=0)

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
        # One save may be the first into a file that is then written in place; two files are two saves.
        makes_new_ones = before is not None and before != state.inode
        if not self._taken_over(path, to, state, may_link=makes_new_ones):
            _remove(to, self._root)
            return None
        for old in versions[: 1 - _KEPT]:
            _remove(old, self._root)
        return to

    def _taken_over(self, path: str, to: str, state: _State, *, may_link: bool) -> bool:
        """Whether the version is there: not if the file is no longer, or never was, the one that was looked at."""
        try:
            os.makedirs(os.path.dirname(to), exist_ok=True)
            with _taken(path, self._source) as source:
                if _state_of(os.fstat(source.fileno())) != state:
                    return False
                if may_link and _linked(source.fileno(), to):
                    return True
                return _copied(source.fileno(), to, state)
        except OSError as error:
            # Replaced or removed by the job meanwhile.
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENOTDIR):
                return False
            # It is tried again and again: without room, not even an empty folder may be left each time.
            _remove(to, self._root)
            raise

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
        for folder, _, _ in os.walk(self._root, topdown=False):
            if folder != self._root:
                _remove_empty(folder)


class VersionKeeper:
    """Keeps versions in a thread: of what is there at first, while ranks run, and once more at the end."""

    def __init__(self, places: Sequence[Place]) -> None:
        # Late: none is made before the ranks of a first attempt have started.
        import threading

        self._versions = [Versions(place) for place in places]
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
        while not self._done.wait(max(_LOOK_EVERY_S, took_s / _MOST_SHARE_OF_TIME)):
            took_s = self._look(_LOOK_EVERY_S)
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
    return _state_of(status)


def _state_of(status: os.stat_result) -> Optional[_State]:
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


def _aside(name: str) -> str:
    return f".{name[:200]}.{os.urandom(4).hex()}"


def _taken(path: str, top: str) -> BinaryIO:
    """A plain file below a folder, open."""
    return open(beneath.open_file(path, top), "rb")


def _linked(source: int, to: str) -> bool:
    """A second name for an open file; not where names cannot be shared."""
    folder, name = os.path.split(to)
    aside = os.path.join(folder, _aside(name))
    try:
        # Given a descriptor, Python has the kernel follow the link in /proc; that path is absolute.
        os.link(f"/proc/self/fd/{source}", aside, src_dir_fd=source)
    except OSError:
        return False
    os.replace(aside, to)
    return True


def _copied(source: int, to: str, state: _State) -> bool:
    """A copy of an open file, if that is still in `state` when all is read."""
    folder, name = os.path.split(to)
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _copy(source, place, name, state)
    finally:
        os.close(place)


def _copy(source: int, folder: int, name: str, state: Optional[_State] = None) -> bool:
    """A copy with the same times, which appears in the open folder, whole; not if the source is no longer in
    `state`."""
    aside = _aside(name)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(aside, flags, 0o600, dir_fd=folder), "wb") as target:
            _fill(source, target, has_to_leave_room=state is not None)
        if state is not None and _state_of(os.fstat(source)) != state:
            os.unlink(aside, dir_fd=folder)
            return False
        os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        _unlink(aside, folder)
        raise
    return True


def _fill(source: int, target: BinaryIO, *, has_to_leave_room: bool) -> None:
    import shutil

    if not _share(source, target.fileno()):
        if has_to_leave_room:
            _check_room(source, target.fileno())
        with open(os.dup(source), "rb") as reading:
            reading.seek(0)
            shutil.copyfileobj(reading, target, _BLOCK)
    target.flush()
    os.fsync(target.fileno())
    status = os.fstat(source)
    os.fchmod(target.fileno(), stat.S_IMODE(status.st_mode) & 0o777)
    os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _check_room(source: int, target: int) -> None:
    """A version must not take the room that the job needs for its next save."""
    room = os.statvfs(target)
    if room.f_bavail * room.f_frsize < 2 * os.fstat(source).st_size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


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
    while folder != root and _remove_empty(folder):
        folder = os.path.dirname(folder)


def _remove_empty(folder: str) -> bool:
    """Whether it was empty, and is gone; one that cannot be removed keeps no job from starting."""
    try:
        os.rmdir(folder)
    except OSError:
        return False
    return True


def _unlink(path: str, folder: Optional[int] = None) -> None:
    try:
        os.unlink(path, dir_fd=folder)
    except FileNotFoundError:
        return
