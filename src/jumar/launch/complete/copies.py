"""How a version of a file comes to be and goes: blocks are shared, a second name is given, or bytes are copied; it
appears whole, and nothing is read or written through a link of the job's."""

import contextlib
import errno
import fcntl
import os
import signal
import stat
from typing import BinaryIO, Iterator, List, NamedTuple, Optional, Tuple

from . import beneath

_SHARE_BLOCKS = 0x40049409
"""FICLONE of linux/fs.h."""
_BLOCK = 8 << 20


class State(NamedTuple):
    """By which a file that was written to is told from what it was."""

    inode: int
    size: int
    changed_ns: int


Dated = Tuple[int, int]
"""The same across copies: size and time."""


def state(path: str) -> Optional[State]:
    """Of a plain file; None of anything else."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return state_of(status)


def state_of(status: os.stat_result) -> Optional[State]:
    """The same of what was asked already."""
    if not stat.S_ISREG(status.st_mode):
        return None
    return State(status.st_ino, status.st_size, status.st_mtime_ns)


def is_same(one: str, other: str) -> bool:
    """Whether two names are of one file."""
    try:
        return os.path.samestat(os.lstat(one), os.lstat(other))
    except OSError:
        return False


def dated(path: str) -> Optional[Dated]:
    """Of a plain file."""
    found = state(path)
    return None if found is None else (found.size, found.changed_ns)


def listed(folder: str) -> List[str]:
    """The names in it; none where it is not there."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def files(folder: str) -> Iterator[str]:
    """All below it."""
    return (path for path, is_folder in _below(folder) if not is_folder)


def folders(folder: str) -> List[str]:
    """The same, each after those that it is in."""
    return [path for path, is_folder in _below(folder) if is_folder]


def _below(folder: str) -> Iterator[Tuple[str, bool]]:
    """Not by calls within calls: a job may have made folders deeper than those may be."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = [(one.path, one.is_dir(follow_symlinks=False)) for one in entries]
        except OSError:
            continue
        waiting += [path for path, is_folder in found if is_folder]
        yield from found


def remove_tree(folder: str) -> None:
    """As far as it can be; on Python before 3.13 not where it is very deep."""
    import shutil

    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)


def _aside(name: str) -> str:
    # A name is limited in bytes, of which a character may take four.
    return f".{os.fsdecode(os.fsencode(name)[:200])}.{os.urandom(4).hex()}"


def taken(path: str, top: str) -> BinaryIO:
    """A plain file below a folder, open."""
    return open(beneath.open_file(path, top), "rb")


def is_being_written(path: str, top: str) -> Optional[bool]:
    """Whether somebody has the file open to write; None where the kernel does not tell: on a file server, of a file
    that is another user's."""
    try:
        with taken(path, top) as file:
            return _is_open_to_write(file.fileno())
    except OSError:
        return None


def _is_open_to_write(file: int) -> Optional[bool]:
    # Who opens it in the moment that this lease is there waits for its end, and we are told so by a signal: by one that
    # is ignored unless somebody wants it, as the usual one ends a process.
    fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


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


def taken_over(path: str, top: str, to: str, state: State, *, may_link: bool, room: int) -> bool:
    """Whether a version of a file below `top` is there now: not if the file is no longer, or never was, the one
    in `state`. A copy is made only where there is so much room."""
    try:
        os.makedirs(os.path.dirname(to), exist_ok=True)
        with taken(path, top) as source:
            if state_of(os.fstat(source.fileno())) != state:
                return False
            if may_link and _linked(source.fileno(), to):
                return True
            return _copied(source.fileno(), to, state, room)
    except OSError as error:
        # Replaced or removed by the job meanwhile.
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENOTDIR):
            return False
        raise


def _copied(source: int, to: str, state: State, room: int) -> bool:
    """A copy of an open file, if that is still in `state` when all is read."""
    folder, name = os.path.split(to)
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        aside = beside(source, place, name, room)
        if state_of(os.fstat(source)) != state:
            unlink(aside, place)
            return False
        rename(aside, place, name)
    finally:
        os.close(place)
    return True


def beside(source: int, folder: int, name: str, room: int = 0) -> str:
    """A copy of an open file with the same times, under another name in the open folder, which it tells."""
    aside = _aside(name)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(aside, flags, 0o600, dir_fd=folder), "wb") as target:
            _fill(source, target, room)
    except OSError:
        unlink(aside, folder)
        raise
    return aside


def linked_beside(source: int, folder: int, name: str) -> str:
    """A second name of it in place of a copy."""
    aside = _aside(name)
    # Given a descriptor, Python has the kernel follow the link in /proc; that path is absolute.
    os.link(f"/proc/self/fd/{source}", aside, src_dir_fd=source, dst_dir_fd=folder)
    return aside


def rename(aside: str, folder: int, name: str) -> None:
    """Give it its own; neither is left if that fails."""
    try:
        os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        unlink(aside, folder)
        raise


def _fill(source: int, target: BinaryIO, room: int) -> None:
    import shutil

    if not _share(source, target.fileno()):
        _check_room(target.fileno(), room)
        with open(os.dup(source), "rb") as reading:
            reading.seek(0)
            shutil.copyfileobj(reading, target, _BLOCK)
    target.flush()
    os.fsync(target.fileno())
    status = os.fstat(source)
    os.fchmod(target.fileno(), stat.S_IMODE(status.st_mode) & 0o777)
    os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _check_room(target: int, wanted: int) -> None:
    """A version must not take the room that the job needs for its next save."""
    room = os.statvfs(target)
    if room.f_bavail * room.f_frsize < wanted:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _share(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _SHARE_BLOCKS, source)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        return False
    return True


def remove(path: str, root: str) -> None:
    """The version, and the folders that it leaves empty."""
    unlink(path)
    folder = os.path.dirname(path)
    while folder != root and remove_empty(folder):
        folder = os.path.dirname(folder)


def remove_empty(folder: str) -> bool:
    """Whether it was empty, and is gone; one that cannot be removed keeps no job from starting."""
    try:
        os.rmdir(folder)
    except OSError:
        return False
    return True


def unlink(path: str, folder: Optional[int] = None) -> None:
    """Also if it is gone already."""
    try:
        os.unlink(path, dir_fd=folder)
    except FileNotFoundError:
        return
