"""Copy one file to another on this machine, in the fastest way that the kernel offers.

A reflink where the file system can (XFS, Btrfs), else copy_file_range, else plain reading and
writing. This file also runs as a script, without importing anything of jumar, to copy many files on
all cores: it reads NUL-separated keys from stdin and reports on stdout."""

import contextlib
import errno
import fcntl
import itertools
import os
import sys
from collections.abc import Sequence

_FICLONE = 0x40049409
_STEP = 1 << 25
_PLAIN_STEP = 1 << 20
# The file system, or the pair of file systems, cannot do it in the kernel.
_CANNOT = {
    errno.EXDEV,
    errno.ENOSYS,
    errno.EINVAL,
    errno.EOPNOTSUPP,
    errno.ENOTTY,
    errno.EPERM,
    errno.EISDIR,
}
SMALL_BYTES = 1 << 16
_WORTH_RESERVING = 1 << 26
# Of keys: some dozens of them, so that progress can be seen.
_KEYS_AT_ONCE = 2048
_numbers = itertools.count()


def copy_file(
    source: str,
    target: str,
    *,
    link: bool = False,
    source_at: int | None = None,
    target_at: int | None = None,
    within: Sequence[str] = (),
) -> int:
    """Copy a file, which appears complete or not at all; returns its size. Keeps the modification time
    and x bits. Paths are relative to the open folders, where those are given. `within`: the folders that the
    source may really be in; none: anywhere."""
    if link:
        return _link(source, target)
    taken = os.open(source, os.O_RDONLY | os.O_CLOEXEC, dir_fd=source_at)
    try:
        if within:
            check_place(taken, within)
        found = os.fstat(taken)
        mode = 0o777 if found.st_mode & 0o111 else 0o666
        try:
            return _copy_nameless(taken, found, target, mode, target_at)
        except OSError as error:
            if error.errno == errno.ENOENT and target_at is None:
                os.makedirs(os.path.dirname(target), exist_ok=True)
            elif error.errno not in _CANNOT:
                raise
        return _copy_aside(taken, found, target, mode, target_at)
    finally:
        os.close(taken)


def check_place(handle: int, within: Sequence[str]) -> None:
    """OSError unless what is open really is in one of these folders.

    Asked of the open file, since whoever may write the folder can put a link there at any moment."""
    if not is_within(os.readlink(f"/proc/self/fd/{handle}"), within):
        raise OSError(errno.ELOOP, "a link leads out of the folder")


def is_within(real: str, folders: Sequence[str]) -> bool:
    """Whether a path without links is one of these folders or in one; none: it may be anywhere."""
    return not folders or any(f"{real}/".startswith(f"{folder}/") for folder in folders)


def _copy_nameless(
    taken: int, found: os.stat_result, target: str, mode: int, at: int | None
) -> int:
    """Into a file that has no name until it is complete: nothing is left if we are killed, and it costs
    a file system less than a rename. Not every one can do it."""
    folder = os.path.dirname(target) or "."
    made = os.open(folder, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, mode, dir_fd=at)
    try:
        size = _fill(made, taken, found)
        # Given a descriptor, Python has the kernel follow the link in /proc; that path is absolute.
        path = f"/proc/self/fd/{made}"
        try:
            os.link(path, target, src_dir_fd=made, dst_dir_fd=at)
        except FileExistsError:
            aside = _aside(target)
            os.link(path, aside, src_dir_fd=made, dst_dir_fd=at)
            _rename(aside, target, at)
        return size
    finally:
        os.close(made)


def _copy_aside(taken: int, found: os.stat_result, target: str, mode: int, at: int | None) -> int:
    aside, flags = _aside(target), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    made = os.open(aside, flags, mode, dir_fd=at)
    try:
        # The first way may have read some of it.
        os.lseek(taken, 0, os.SEEK_SET)
        size = _fill(made, taken, found)
    except BaseException:
        os.unlink(aside, dir_fd=at)
        raise
    finally:
        os.close(made)
    _rename(aside, target, at)
    return size


def _aside(target: str) -> str:
    return f"{os.path.dirname(target) or '.'}/.jumar-{os.getpid()}-c{next(_numbers)}"


def _rename(aside: str, target: str, at: int | None) -> None:
    try:
        os.rename(aside, target, src_dir_fd=at, dst_dir_fd=at)
    except OSError:
        os.unlink(aside, dir_fd=at)
        raise


def _fill(made: int, taken: int, found: os.stat_result) -> int:
    size = copy_bytes(taken, made, found.st_size)
    os.utime(made, ns=(found.st_atime_ns, found.st_mtime_ns))
    return size


def copy_bytes(taken: int, made: int, size: int) -> int:
    """Copy up to `size` bytes of one open file into another; returns how many."""
    if size <= SMALL_BYTES:
        done = _write_all(made, os.read(taken, size))
        return done if done == size else _go_on(taken, made, done, size)
    try:
        fcntl.ioctl(made, _FICLONE, taken)
        return size
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    if size >= _WORTH_RESERVING and os.fstat(taken).st_blocks * 512 >= size:
        reserve(made, size)
    try:
        done = _copy_range(taken, made, size)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        os.lseek(taken, 0, os.SEEK_SET)
        os.lseek(made, 0, os.SEEK_SET)
        done = _go_on(taken, made, 0, size)
    if done < size:
        os.ftruncate(made, done)
    return done


def reserve(made: int, size: int) -> None:
    """Allocate the blocks of an open file up front.

    It saves a third of a big copy's time, and a full disk shows before the first byte is written.
    Where the file system does not support it, the file stays as it is."""
    # Without support, os.posix_fallocate would write a byte to each block instead, even over NFS.
    import ctypes

    length = ctypes.c_longlong(size)
    if ctypes.CDLL(None, use_errno=True).fallocate64(made, 0, ctypes.c_longlong(0), length):
        number = ctypes.get_errno()
        if number not in _CANNOT:
            raise OSError(number, os.strerror(number))


def _copy_range(taken: int, made: int, size: int) -> int:
    at = 0
    while at < size:
        got = os.copy_file_range(taken, made, min(_STEP, size - at), at, at)
        if not got:
            # Some file systems say so where they cannot do it; only reading tells that it is the end.
            os.lseek(taken, at, os.SEEK_SET)
            os.lseek(made, at, os.SEEK_SET)
            return _go_on(taken, made, at, size)
        at += got
    return at


def _go_on(taken: int, made: int, done: int, size: int) -> int:
    """Read and write from here on, up to `size` bytes in all; returns how many there are then."""
    while done < size:
        data = os.read(taken, min(_PLAIN_STEP, size - done))
        if not data:
            break
        done += _write_all(made, data)
    return done


def _write_all(made: int, data: bytes) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(made, view) :]
    return len(data)


def _link(source: str, target: str) -> int:
    aside = _aside(target)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(aside)
    try:
        os.link(source, aside)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.link(source, aside)
    os.rename(aside, target)
    # If both are names of one file, the rename did nothing.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(aside)
    return os.stat(target).st_size


class _Folders:
    """The same folder on both sides, open: to walk down its path for each file costs a tenth of all."""

    def __init__(self, source: str, target: str, within: Sequence[str] = ()) -> None:
        self._roots = (source, target)
        self._within = within
        self._name: str | None = None
        self._open: list[int] = []

    def copy(self, key: str) -> int:
        """Copy one file, under the same key."""
        folder, _, name = key.rpartition("/")
        if folder != self._name or len(self._open) < 2:
            self._enter(folder)
        source_at, target_at = self._open
        return copy_file(name, name, source_at=source_at, target_at=target_at, within=self._within)

    def _enter(self, folder: str) -> None:
        while self._open:
            os.close(self._open.pop())
        self._name = folder
        source, target = (f"{root}/{folder}" for root in self._roots)
        self._open.append(os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        os.makedirs(target, exist_ok=True)
        self._open.append(os.open(target, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))


def serve(source_root: str, target_root: str, link: bool, within: Sequence[str] = ()) -> None:
    """Copy the NUL-separated keys on stdin as they come. Tells on stdout of many at once: `+COUNT NUL
    BYTES NUL`, and of each that failed: `!KEY NUL ERRNO NUL`."""
    folders = _Folders(source_root, target_root, within)
    left = b""
    while data := os.read(0, _KEYS_AT_ONCE):
        *keys, left = (left + data).split(b"\0")
        answers: list[str] = []
        count = size = 0
        for key in map(os.fsdecode, keys):
            try:
                if link:
                    size += copy_file(f"{source_root}/{key}", f"{target_root}/{key}", link=True)
                else:
                    size += folders.copy(key)
                count += 1
            except OSError as error:
                answers.append(f"!{key}\0{error.errno}\0")
        _write_all(1, os.fsencode("".join([f"+{count}\0{size}\0", *answers])))


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], sys.argv[3] == "link", sys.argv[4:])
