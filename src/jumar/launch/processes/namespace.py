"""Folders and files at fixed paths for one process and what it starts, and for nobody else.

The process gets a mount namespace of its own whose root is a tmpfs with every entry of the real
root bound into it, and the wanted paths besides. It enters between fork and exec, so there is no
helper process: signals and exit codes are the program's own. Without root rights a user namespace
lends the right to mount; the program runs as the same user in it.

What this changes for the program: a new entry directly under / is lost when it ends, and rename()
between top-level folders says EXDEV, as between file systems."""

import contextlib
import ctypes
import errno
import os
import re
import select
import signal
from typing import NamedTuple, Optional, Pattern, Sequence, Tuple

_TRIAL_LIMIT_S = 10.0
_MOST_ENTRIES = 2000
TMP = "/tmp"
# With such files the ranks of one job wait for each other, under names that are the same in every job.
_LOCK = re.compile(r"\w*sync\w*\.lock\d*")
_NOT_TO_BIND = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_BIND = 1 << 12
_MS_REC = 1 << 14
_MS_UNBINDABLE = 1 << 17
_MS_PRIVATE = 1 << 18
_MS_SLAVE = 1 << 19
_MNT_DETACH = 2
# No wrapper in the C library; by machine, as in the kernel's tables.
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "loongarch64": 41}
_libc = ctypes.CDLL(None, use_errno=True)


class Mount(NamedTuple):
    """One thing of this machine, under another path."""

    target: str
    source: str


class View(NamedTuple):
    """What a process shall see besides what is there."""

    mounts: Tuple[Mount, ...]
    staging: str
    """Any folder but a source; the new root is put together over it, seen by the process alone."""
    tmp: str = ""
    """A folder to write to in the place of /tmp. What is in /tmp is seen in it, but for locks."""


def view_of(
    mounts: Sequence[Mount], staging: str, over: Sequence[Mount] = (), tmp: str = ""
) -> Optional[View]:
    """None when there is nothing to do. Targets that are there are left alone, but those of `over`,
    which come to lie over them."""
    wanted = [mount for mount in map(_placed, over) if mount.source != mount.target]
    wanted += [mount for mount in map(_placed, mounts) if not os.path.lexists(mount.target)]
    # Outer folders first: what is mounted later lies over what was mounted before.
    made = sorted((mount for mount in wanted if os.path.exists(mount.source)), key=_depth)
    return View(tuple(made), staging, tmp) if made or tmp else None


def _placed(mount: Mount) -> Mount:
    return Mount(os.path.realpath(mount.target), mount.source)


def _depth(mount: Mount) -> int:
    return mount.target.count("/")


def trial(view: View) -> Optional[str]:
    """Enter in a child that ends at once; why it is not possible here, or None."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        _try(view, said)
    os.close(said)
    try:
        if not select.select([heard], [], [], _TRIAL_LIMIT_S)[0]:
            # Stuck in the kernel, as on a file server that is gone: reaped when it comes free.
            os.kill(pid, signal.SIGKILL)
            return f"no answer from the file systems within {_TRIAL_LIMIT_S:g} s"
        words = os.read(heard, 4096).decode("utf-8", "replace")
    finally:
        os.close(heard)
    os.waitpid(pid, 0)
    return words or None


def enter(view: View) -> None:
    """Give the calling process the view; raises OSError, and is then in no usable state."""
    become_in_own_users(_CLONE_NEWNS)
    _mount(None, "/", None, _MS_REC | _MS_SLAVE)
    root = view.staging
    _layer("/", root)
    # Else the entry that holds the staging folder would be bound with this new root inside.
    _mount(None, root, None, _MS_UNBINDABLE)
    _fill("/", root)
    opened = {"/"}
    if view.tmp:
        _mount(view.tmp, root + TMP, None, _MS_BIND)
        _fill(TMP, root + TMP, _LOCK)
        opened.add(TMP)
    for number, mount in enumerate(view.mounts):
        is_there = os.path.exists(root + mount.target)
        for folder in () if is_there else _folders_above(mount.target):
            content = _content_of(folder, view.mounts[:number])
            if folder not in opened and os.path.isdir(content):
                _layer(content, root + folder)
                _fill(content, root + folder)
            opened.add(folder)
        _place(mount.source, root + mount.target)
    _pivot(root)
    _mount(None, "/", None, _MS_PRIVATE)


def _try(view: View, said: int) -> None:
    try:
        enter(view)
    except OSError as error:
        os.write(said, str(error).encode("utf-8", "replace"))
    finally:
        os._exit(0)


def become_in_own_users(kind: int) -> None:
    """Put the calling process into a new namespace of a kind, and of users where only that allows it;
    raises OSError."""
    if os.geteuid() == 0:
        checked(_libc.unshare(kind), "unshare")
        return
    uid, gid = os.geteuid(), os.getegid()
    checked(_libc.unshare(kind | _CLONE_NEWUSER), "unshare")
    for name, text in (
        ("setgroups", b"deny"),
        ("uid_map", b"%d %d 1" % (uid, uid)),
        ("gid_map", b"%d %d 1" % (gid, gid)),
    ):
        file = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        os.write(file, text)
        os.close(file)


def _layer(folder: str, place: str) -> None:
    """An empty folder in memory over `place`, with the mode of `folder`."""
    mode = os.stat(folder).st_mode & 0o7777
    _mount("jumar", place, "tmpfs", 0, f"mode={mode:o}")


def _fill(folder: str, place: str, but: Optional[Pattern[str]] = None) -> None:
    """Everything of a folder of the old root, but for some names, bound into its layer."""
    with os.scandir(folder) as found:
        entries = [entry for entry in found if but is None or not but.fullmatch(entry.name)]
    if len(entries) > _MOST_ENTRIES:
        raise OSError(errno.E2BIG, f"{folder} has more than {_MOST_ENTRIES} entries")
    for entry in entries:
        # It may be gone since the folder was read, or the job has something else by that name.
        with contextlib.suppress(*_NOT_TO_BIND):
            _bind_entry(entry, os.path.join(place, entry.name))


def _bind_entry(entry: "os.DirEntry[str]", new: str) -> None:
    # What scandir tells by itself: to look at each could wait for a file server.
    if entry.is_symlink():
        # Another process of the job may have filled the same folder.
        with contextlib.suppress(FileExistsError):
            os.symlink(os.readlink(entry.path), new)
    elif entry.is_dir(follow_symlinks=False):
        os.makedirs(new, exist_ok=True)
        _mount(entry.path, new, None, _MS_BIND | _MS_REC)
    else:
        _touch(new)
        _mount(entry.path, new, None, _MS_BIND)


def _place(source: str, new: str) -> None:
    if os.path.isdir(source):
        os.makedirs(new, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(new), exist_ok=True)
        _touch(new)
    _mount(source, new, None, _MS_BIND | _MS_REC)


def _content_of(folder: str, placed: Sequence[Mount]) -> str:
    """What a folder shows, once these have been placed."""
    for mount in reversed(placed):
        if folder == mount.target or folder.startswith(mount.target + "/"):
            return mount.source + folder[len(mount.target) :]
    return folder


def _folders_above(path: str) -> Sequence[str]:
    """From the top down; / itself is left out."""
    parts = path.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _pivot(root: str) -> None:
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, "pivot_root: not known for this machine")
    os.chdir(root)
    # The old root comes to lie over the new one, and is then let go.
    checked(_libc.syscall(number, b".", b"."), "pivot_root")
    checked(_libc.umount2(b".", _MNT_DETACH), "umount")
    os.chdir("/")


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def _mount(
    source: Optional[str], target: str, kind: Optional[str], flags: int, data: Optional[str] = None
) -> None:
    words = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    code = _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    checked(code, f"mount {target}")


def checked(code: int, what: str) -> None:
    """Raise OSError for what the C library said."""
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
