"""Copy one file to another on this machine, in the fastest way that the kernel offers.

A reflink where the file system can (XFS, Btrfs), else copy_file_range, else plain reading and
writing. This file also runs as a script, without importing anything of jumar, to copy many files on
all cores: it reads NUL-separated keys from stdin and reports each one on stdout."""

import contextlib
import errno
import fcntl
import itertools
import os
import sys

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
_numbers = itertools.count()


def copy_file(source: str, target: str, *, link: bool = False) -> int:
    """Copy a file, which appears complete or not at all; returns its size. Keeps the modification time
    and x bits."""
    aside = f"{os.path.dirname(target)}/.jumar-{os.getpid()}-c{next(_numbers)}"
    if link:
        return _link(source, target, aside)
    taken = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.fstat(taken)
        mode = 0o777 if found.st_mode & 0o111 else 0o666
        try:
            return _copy_nameless(taken, found, target, aside, mode)
        except OSError as error:
            if error.errno == errno.ENOENT:
                os.makedirs(os.path.dirname(target), exist_ok=True)
            elif error.errno not in _CANNOT:
                raise
        return _copy_aside(taken, found, target, aside, mode)
    finally:
        os.close(taken)


def _copy_nameless(taken: int, found: os.stat_result, target: str, aside: str, mode: int) -> int:
    """Into a file that has no name until it is complete: nothing is left if we are killed, and it costs
    a file system less than a rename. Not every one can do it."""
    made = os.open(os.path.dirname(target), os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, mode)
    try:
        size = _fill(made, taken, found)
        # Given a descriptor, Python has the kernel follow the link in /proc; the path is absolute.
        path = f"/proc/self/fd/{made}"
        try:
            os.link(path, target, src_dir_fd=made)
        except FileExistsError:
            os.link(path, aside, src_dir_fd=made)
            _rename(aside, target)
        return size
    finally:
        os.close(made)


def _copy_aside(taken: int, found: os.stat_result, target: str, aside: str, mode: int) -> int:
    made = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        size = _fill(made, taken, found)
    except BaseException:
        os.unlink(aside)
        raise
    finally:
        os.close(made)
    _rename(aside, target)
    return size


def _rename(aside: str, target: str) -> None:
    try:
        os.rename(aside, target)
    except OSError:
        os.unlink(aside)
        raise


def _fill(made: int, taken: int, found: os.stat_result) -> int:
    os.lseek(taken, 0, os.SEEK_SET)
    size = copy_bytes(taken, made, found.st_size)
    os.utime(made, ns=(found.st_atime_ns, found.st_mtime_ns))
    return size


def copy_bytes(taken: int, made: int, size: int) -> int:
    """Copy up to `size` bytes of one open file into another; returns how many."""
    if size <= SMALL_BYTES:
        return _write_all(made, os.read(taken, size))
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
        done = _copy_plainly(taken, made, size)
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
            break
        at += got
    return at


def _copy_plainly(taken: int, made: int, size: int) -> int:
    os.lseek(taken, 0, os.SEEK_SET)
    os.lseek(made, 0, os.SEEK_SET)
    done = 0
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


def _link(source: str, target: str, aside: str) -> int:
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


def serve(source_root: str, target_root: str, link: bool) -> None:
    """Copy the NUL-separated keys on stdin; answers `key NUL size NUL error NUL` for each."""
    keys = os.fsdecode(sys.stdin.buffer.read()).split("\0")[:-1]
    answers: list[str] = []
    for key in keys:
        try:
            size = copy_file(f"{source_root}/{key}", f"{target_root}/{key}", link=link)
            answers.append(f"{key}\0{size}\0\0")
        except OSError as error:
            answers.append(f"{key}\0-1\0{error.errno}\0")
        if len(answers) >= 64:
            _answer(answers)
    _answer(answers)


def _answer(answers: list[str]) -> None:
    sys.stdout.buffer.write(os.fsencode("".join(answers)))
    sys.stdout.buffer.flush()
    answers.clear()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], sys.argv[3] == "link")
