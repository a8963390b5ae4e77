"""Files in a folder that a job writes to, opened by somebody who may have more rights than the job: wherever
it has put a link, nothing outside of the folder is read, and nothing is written there."""

import errno
import os
import stat

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_file(path: str, top: str) -> int:
    """A descriptor of a plain file that really is below `top`, a folder without links in its name. OSError."""
    handle = os.open(path, _FILE)
    # Asked of what is open: by its name it may be another one by now.
    if stat.S_ISREG(os.fstat(handle).st_mode) and is_below(handle, top):
        return handle
    os.close(handle)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def is_below(handle: int, top: str) -> bool:
    """Whether what is open lies in that folder, however it was come by."""
    return os.readlink(f"/proc/self/fd/{handle}").startswith(top.rstrip("/") + "/")


def make_folder(top: str, path: str) -> int:
    """A descriptor of the folder at a path below `top`, made as far as it is missing. OSError where a link is
    in the way."""
    handle = os.open(top, _FOLDER)
    for name in filter(None, path.split("/")):
        above = handle
        try:
            if not _is_there(name, above):
                os.mkdir(name, dir_fd=above)
            handle = os.open(name, _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return handle


def _is_there(name: str, folder: int) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
