"""Versions of checkpoints that are written again and again under one name: `.versions/N/` beside them.

A script that overwrites its only file loses both the old and the new one when it is killed meanwhile. So
complete ones are copied, without taking up room where the file system can share blocks. Checkpoints that
have numbers in their names are versions already, and are left alone."""

import errno
import fcntl
import os
import shutil
import stat
import threading
from typing import Dict, List, NamedTuple, Optional

from . import search
from .verdict import COMPLETE, TORN

_KEPT = 2
_SHARE_BLOCKS = 0x40049409
"""FICLONE of linux/fs.h."""
_BLOCK = 8 << 20


class _State(NamedTuple):
    inode: int
    size: int
    changed_ns: int


def keep_versions(source: str, store: str, now: float, still_s: float = 2.0) -> List[str]:
    """Copy what is complete, has not changed for `still_s` and is not yet kept, from `source` to
    `store`/.versions; the new versions. Safe while ranks write: a file that changes meanwhile is not kept."""
    found = [one for one in search.survey(source) if not search.is_version(one.path)]
    families: Dict[str, int] = {}
    for one in found:
        family = search.family_of(os.path.relpath(one.path, source))
        families[family] = families.get(family, 0) + 1
    made: List[str] = []
    for one in found:
        name = os.path.relpath(one.path, source)
        has_others = families[search.family_of(name)] > 1
        if has_others or one.verdict.state != COMPLETE or not os.path.isfile(one.path):
            continue
        state = _state(one.path)
        if state is not None and now - one.changed_ns / 1e9 >= still_s:
            kept = _keep(one.path, name, store, state)
            made += [] if kept is None else [kept]
    return made


def restore_versions(source: str, store: str) -> List[str]:
    """Put the newest version of each file that is missing or torn in its place; what was put."""
    put: List[str] = []
    for name, versions in _kept(store).items():
        path = os.path.join(source, name)
        if os.path.lexists(path) and search.judge(path).state != TORN:
            continue
        for version in reversed(versions):
            if search.judge(version).state == COMPLETE:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                _copy(version, path)
                put.append(path)
                break
    return put


class VersionKeeper:
    """Keeps versions while the ranks run, in a thread, and once more at the end."""

    def __init__(self, source: str, store: str, every_s: float = 2.0) -> None:
        self._source = source
        self._store = store
        self._every_s = every_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="versions", daemon=True)
        self.trouble: Optional[OSError] = None

    def start(self) -> "VersionKeeper":
        """Begin."""
        self._thread.start()
        return self

    def close(self, most_s: float = 60.0) -> None:
        """When no rank writes any more; waits for a copy that is being made."""
        self._done.set()
        self._thread.join(most_s)

    def _run(self) -> None:
        while not self._done.wait(self._every_s):
            self._look(self._every_s)
        self._look(0.0)

    def _look(self, still_s: float) -> None:
        import time

        try:
            keep_versions(self._source, self._store, time.time(), still_s)
        except OSError as error:
            # No room for a second one: the job goes on without, and whoever closes may tell.
            self.trouble = error


def _state(path: str) -> Optional[_State]:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return _State(status.st_ino, status.st_size, status.st_mtime_ns)


def _kept(store: str) -> Dict[str, List[str]]:
    """By name, the oldest first."""
    root = os.path.join(store, search.VERSIONS)
    numbers = sorted(int(name) for name in _listed(root) if name.isdigit())
    kept: Dict[str, List[str]] = {}
    for number in numbers:
        top = os.path.join(root, str(number))
        for here, _, names in os.walk(top):
            for name in names:
                if not name.startswith("."):
                    path = os.path.join(here, name)
                    kept.setdefault(os.path.relpath(path, top), []).append(path)
    return kept


def _listed(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _keep(path: str, name: str, store: str, state: _State) -> Optional[str]:
    versions = _kept(store).get(name, [])
    last = _state(versions[-1]) if versions else None
    if last is not None and (last.size, last.changed_ns) == (state.size, state.changed_ns):
        return None
    root = os.path.join(store, search.VERSIONS)
    number = max([int(entry) for entry in _listed(root) if entry.isdigit()], default=0) + 1
    to = os.path.join(root, str(number), name)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    if not _copy(path, to, state):
        _remove(to, root)
        return None
    for old in versions[: 1 - _KEPT]:
        _remove(old, root)
    return to


def _copy(path: str, to: str, state: Optional[_State] = None) -> bool:
    """A copy with the same times, which appears whole; not if `path` is no longer in `state`."""
    aside = os.path.join(os.path.dirname(to), f".{os.path.basename(to)}.{os.urandom(4).hex()}")
    try:
        with open(path, "rb") as source, open(aside, "xb") as target:
            if not _share(source.fileno(), target.fileno()):
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
