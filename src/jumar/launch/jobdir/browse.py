"""What a job has left, listed and opened for people elsewhere: below its own folder, never outside.

A job owns its files and may change them at any moment. So every step is taken from an open folder by
one name, a link is read here and never followed by the kernel, and only a plain file is opened."""

import errno
import os
import stat
from contextlib import ExitStack
from typing import Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from jumar.launch.jobdir.files import is_below

MOST_NAMES = 500_000
"""In one folder: they are sorted in memory."""
MOST_DEPTH = 64
"""Each level is an open descriptor while the folder is listed."""
_MOST_STEPS = 4 * MOST_DEPTH
"""From folder to folder, to get to one file."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# NONBLOCK: opening a pipe would wait for a writer, for ever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG)


class CannotBrowse(Exception):
    """There is no such file to be shown; the message says why."""


class Entry(NamedTuple):
    """One thing in the folder of a job."""

    path: str
    kind: str
    """file, folder, link; or other: what cannot be sent, such as a pipe."""
    size: int = 0
    modified_at: float = 0.0
    etag: str = ""
    """Of a file: changes when it does."""
    target: Optional[str] = None
    """Of a link."""


class Found(NamedTuple):
    """Where a path leads: into an open folder, or to a name in one that is not a folder."""

    names: List[str]
    folder: int
    leaf: Optional[os.stat_result]


class Shelf:
    """The files of one job."""

    def __init__(
        self,
        root: str,
        elsewhere: Mapping[str, str],
        hidden: FrozenSet[str] = frozenset(),
        within: Optional[Sequence[str]] = None,
    ) -> None:
        """`elsewhere`: folders of the job that lie outside of `root`, by the path they have inside; with none it takes the place of `root`.
        `hidden`: names at the top that are not the job's. `within`: what the first must really be in; None:
        anywhere."""
        self._within = within
        self._places: Dict[str, str] = {"": root, **elsewhere}
        self._is_elsewhere = "" in elsewhere
        self._hidden = hidden

    def open_file(self, path: str) -> int:
        """A descriptor of a plain file; CannotBrowse, or an OSError that may pass."""
        with ExitStack() as opened:
            found = self._find(path, opened)
            if found.leaf is None:
                raise CannotBrowse(f"{path or 'the whole'} is a folder")
            # Asked first: to open a device may do something.
            if not stat.S_ISREG(found.leaf.st_mode):
                raise CannotBrowse(f"{path} is not a plain file")
            handle = _open(found.names[-1], _FILE, found.folder, path)
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                os.close(handle)
                raise CannotBrowse(f"{path} is not a plain file")
            return handle

    def place_of(self, path: str) -> str:
        """The path of the same file or folder without links; CannotBrowse."""
        with ExitStack() as opened:
            return "/".join(self._find(path, opened).names)

    def entries(self, path: str, after: str = "") -> Iterator[Entry]:
        """All below `path`, folders before what is in them, names in order; the first one after `after`."""
        with ExitStack() as opened:
            found = self._find(path, opened)
            if found.leaf is not None:
                if not after:
                    yield _entry("/".join(found.names), found.leaf, found.names[-1], found.folder)
                return
            below = _parts(after)
            if below[: len(found.names)] != found.names:
                below = found.names
            yield from self._below(found.folder, found.names, below[len(found.names) :])

    def _below(self, folder: int, names: List[str], after: List[str]) -> Iterator[Entry]:
        for shown, name in _names(folder, "/".join(names)):
            if (after and shown < after[0]) or (not names and name in self._hidden):
                continue
            here = [*names, name]
            is_given = bool(after) and shown == after[0]
            entry = self._look(folder, here)
            if entry is None:
                continue
            if not is_given:
                yield entry
            if entry.kind == "folder":
                yield from self._inside(folder, here, after[1:] if is_given else [])

    def _inside(self, folder: int, names: List[str], after: List[str]) -> Iterator[Entry]:
        try:
            handle = self._enter(folder, names)
        except (CannotBrowse, PermissionError):
            # It was there a moment ago, or is closed to us: the entry itself has been shown.
            return
        try:
            yield from self._below(handle, names, after)
        finally:
            os.close(handle)

    def _look(self, folder: int, names: List[str]) -> Optional[Entry]:
        """None when it is gone again."""
        path, name = "/".join(names), names[-1]
        if not _is_text(name):
            return Entry(_shown(path), "other")
        try:
            status = os.lstat(name, dir_fd=folder)
        except FileNotFoundError:
            return None
        if path in self._places:
            return Entry(path, "folder", modified_at=status.st_mtime)
        entry = _entry(path, status, name, folder)
        is_shut = entry.kind == "folder" and (
            len(names) >= MOST_DEPTH or not os.access(name, os.R_OK | os.X_OK, dir_fd=folder)
        )
        return entry._replace(kind="other") if is_shut else entry

    def _enter(self, folder: int, names: List[str]) -> int:
        path = "/".join(names)
        if path in self._places:
            return self._enter_elsewhere(path, path)
        return _open(names[-1], _FOLDER, folder, path)

    def _enter_elsewhere(self, inside: str, shown: str) -> int:
        # Its owner has named it, links and all.
        handle = _open(self._places[inside], _FOLDER & ~os.O_NOFOLLOW, None, shown)
        if self._within is None or _is_in(handle, self._within):
            return handle
        os.close(handle)
        raise CannotBrowse(f"{shown} leads out of what the job was given")

    def _root(self) -> int:
        if self._is_elsewhere:
            return self._enter_elsewhere("", "the job's folder")
        return _open(self._places[""], _FOLDER & ~os.O_NOFOLLOW, None, "the job's folder")

    def _find(self, path: str, opened: ExitStack) -> Found:
        root = self._root()
        opened.callback(os.close, root)
        way: List[Tuple[str, int]] = []
        waiting = _parts(path)[::-1]
        for _ in range(_MOST_STEPS):
            if not waiting:
                return Found([name for name, _ in way], way[-1][1] if way else root, None)
            name = waiting.pop()
            folder = way[-1][1] if way else root
            if name == "..":
                if not way:
                    raise CannotBrowse(f"{path} leads out of the job's folder")
                way.pop()
                continue
            names = [*(done for done, _ in way), name]
            if names[0] in self._hidden or len(names) > MOST_DEPTH:
                raise CannotBrowse(f"{path} does not exist")
            status = _lstat(name, folder, path)
            is_placed = "/".join(names) in self._places
            if stat.S_ISLNK(status.st_mode) and not is_placed:
                target = os.readlink(name, dir_fd=folder)
                if target.startswith("/"):
                    target, way = self._brought_inside(target, path), []
                waiting += _parts(target)[::-1]
            elif stat.S_ISDIR(status.st_mode) or is_placed:
                handle = self._enter(folder, names)
                opened.callback(os.close, handle)
                way.append((name, handle))
            elif waiting:
                raise CannotBrowse(f"{path} does not exist")
            else:
                return Found(names, folder, status)
        raise CannotBrowse(f"{path} is too long a way, or goes round in circles")

    def _brought_inside(self, target: str, path: str) -> str:
        """A link's full path as seen from the job's folder."""
        for inside, place in self._places.items():
            if target == place or target.startswith(place.rstrip("/") + "/"):
                return f"{inside}/{target[len(place) :]}"
        raise CannotBrowse(f"{path} leads out of the job's folder")


def _is_in(handle: int, folders: Sequence[str]) -> bool:
    real = os.readlink(f"/proc/self/fd/{handle}")
    return any(is_below(real, os.path.realpath(folder)) for folder in folders)


def _parts(path: str) -> List[str]:
    if "\0" in path:
        raise CannotBrowse("the path has a NUL character")
    return [part for part in path.split("/") if part not in ("", ".")]


def _names(folder: int, path: str) -> List[Tuple[str, str]]:
    """In the order of what is shown of them, which is what a listing goes on from."""
    names: List[Tuple[str, str]] = []
    with os.scandir(folder) as found:
        for entry in found:
            names.append((_shown(entry.name), entry.name))
            if len(names) > MOST_NAMES:
                raise CannotBrowse(f"{path or 'the folder'} has more than {MOST_NAMES} entries")
    return sorted(names)


def _entry(path: str, status: os.stat_result, name: str, folder: int) -> Entry:
    made = Entry(path, "other", modified_at=status.st_mtime)
    if stat.S_ISREG(status.st_mode):
        etag = etag_of(status.st_ino, status.st_size, status.st_mtime_ns)
        return made._replace(kind="file", size=status.st_size, etag=etag)
    if stat.S_ISDIR(status.st_mode):
        return made._replace(kind="folder")
    if stat.S_ISLNK(status.st_mode):
        try:
            target = os.readlink(name, dir_fd=folder)
        except OSError:
            return made
        return made._replace(kind="link", target=target) if _is_text(target) else made
    return made


def etag_of(inode: int, size: int, time_ns: int) -> str:
    """What tells one version of a file from another."""
    return f"{inode:x}-{size:x}-{time_ns:x}"


def _shown(name: str) -> str:
    """Names need not be text; those that are not are only shown."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _lstat(name: str, folder: int, path: str) -> os.stat_result:
    try:
        return os.lstat(name, dir_fd=folder)
    except OSError as error:
        raise _explained(error, path) from error


def _open(name: str, flags: int, folder: Optional[int], path: str) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        raise _explained(error, path) from error


def _explained(error: OSError, path: str) -> Exception:
    if error.errno in _GONE:
        return CannotBrowse(f"{path} does not exist")
    if isinstance(error, PermissionError):
        return CannotBrowse(f"{path} may not be read")
    return error
