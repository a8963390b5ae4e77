"""Where versions lie: `N/NAME`, and of a set all its files in one `N`, with a word on it in `N/.set.json`.

A set appears and goes by one renaming: there is never half of one."""

import contextlib
import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import copies
from .verdict import is_number

_ABOUT = ".set.json"
_MOST_OF_ABOUT = 4096


class SetVersion(NamedTuple):
    """A version of files that were saved together."""

    folder: str
    key: str
    names: Tuple[str, ...]
    pause_s: float
    """Between two saves, as far as was known then."""


class Store:
    """The versions of one place."""

    def __init__(self, root: str) -> None:
        self.root = root

    def next_folder(self) -> str:
        """For the next version."""
        return os.path.join(self.root, str(max(self._numbers(), default=0) + 1))

    def singles(self) -> Dict[str, List[str]]:
        """Of files that stand for themselves, by their names, the oldest first."""
        kept: Dict[str, List[str]] = {}
        for number in self._numbers():
            top = os.path.join(self.root, str(number))
            if not os.path.lexists(os.path.join(top, _ABOUT)):
                for name in _names(top):
                    kept.setdefault(name, []).append(os.path.join(top, name))
        return kept

    def sets(self) -> Dict[str, List[SetVersion]]:
        """By their keys, the oldest first."""
        kept: Dict[str, List[SetVersion]] = {}
        for number in self._numbers():
            version = _read(os.path.join(self.root, str(number)))
            if version is not None:
                kept.setdefault(version.key, []).append(version)
        return kept

    def begin(self) -> str:
        """A folder to put the files of a set into, which counts for nothing yet."""
        os.makedirs(self.root, exist_ok=True)
        folder = os.path.join(self.root, f".new.{os.urandom(4).hex()}")
        os.mkdir(folder)
        return folder

    def commit(self, folder: str, key: str, names: Tuple[str, ...], pause_s: float) -> SetVersion:
        """From now on it is a version."""
        version = SetVersion(self.next_folder(), key, names, pause_s)
        _write(folder, version)
        os.rename(folder, version.folder)
        return version

    def learn(self, version: SetVersion, pause_s: float) -> SetVersion:
        """More is known of the pause."""
        known = version._replace(pause_s=pause_s)
        # Without room for this word there is none for a version, which is told.
        with contextlib.suppress(OSError):
            _write(version.folder, known)
        return known

    def remove_set(self, folder: str) -> None:
        """A version, or what was to become one; what is left of it then counts for nothing."""
        import shutil

        aside = os.path.join(self.root, f".old.{os.urandom(4).hex()}")
        try:
            os.rename(folder, aside)
        except FileNotFoundError:
            return
        shutil.rmtree(aside, ignore_errors=True)

    def remove_leftovers(self) -> None:
        """Of versions that were being made or removed when the one who did it was killed."""
        import shutil

        for name in copies.listed(self.root):
            if name.startswith("."):
                shutil.rmtree(os.path.join(self.root, name), ignore_errors=True)
        for path in list(copies.files(self.root)):
            if os.path.basename(path).startswith(".") and not self._is_about(path):
                copies.remove(path, self.root)
        for folder, _, _ in os.walk(self.root, topdown=False):
            if folder != self.root:
                copies.remove_empty(folder)

    def _is_about(self, path: str) -> bool:
        folder, name = os.path.split(path)
        return name == _ABOUT and os.path.dirname(folder) == self.root

    def _numbers(self) -> List[int]:
        return sorted(int(name) for name in copies.listed(self.root) if is_number(name))


def _names(top: str) -> List[str]:
    paths = (path for path in copies.files(top) if not os.path.basename(path).startswith("."))
    return sorted(os.path.relpath(path, top) for path in paths)


def _read(folder: str) -> Optional[SetVersion]:
    """None where it is none, or not whole: the job may have written there."""
    try:
        with copies.taken(os.path.join(folder, _ABOUT), os.path.realpath(folder)) as file:
            about: Any = json.loads(file.read(_MOST_OF_ABOUT))
        names = tuple(_names(folder))
        key, count, pause_s = str(about["key"]), int(about["files"]), float(about["pause_s"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return SetVersion(folder, key, names, pause_s) if len(names) == count else None


def _write(folder: str, version: SetVersion) -> None:
    about = {"key": version.key, "files": len(version.names), "pause_s": version.pause_s}
    aside = os.path.join(folder, f"{_ABOUT}.{os.urandom(4).hex()}")
    try:
        with open(aside, "x", encoding="utf-8") as file:
            json.dump(about, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, os.path.join(folder, _ABOUT))
    except OSError:
        copies.unlink(aside)
        raise
