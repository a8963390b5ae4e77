"""Where versions lie: `N/NAME`, and of a set all its files in one `N`, with a word on it in `N/.set.json`.

A set appears and goes by one renaming: there is never half of one."""

import contextlib
import json
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import copies, search
from .copies import Dated
from .verdict import is_number

_ABOUT = ".set.json"
_MOST_OF_ABOUT = 1 << 20
_REPLACED = "replaced"


class Single(NamedTuple):
    """A version of a file that stands for itself."""

    name: str
    path: str


class SetVersion(NamedTuple):
    """A version of files that were saved together."""

    folder: str
    key: str
    names: Tuple[str, ...]
    pause_s: float
    """Between two saves, as far as was known then."""
    seen: Tuple[Dated, ...] = ()
    """Of the last save of all that was seen, where that is a newer one of which no version was made."""
    is_loose: bool = False
    """Whether some were saved again and again since, and others not: they are no parts of one save."""
    worlds: Tuple[int, ...] = ()
    """How many ranks there may have been."""
    dates: Tuple[Dated, ...] = ()
    """Of its files. One that is but another name of the job's file is lost when the job writes into that."""

    @property
    def family(self) -> str:
        """What it has in common with those of other epochs."""
        return search.family_of(self.key)

    @property
    def is_as_kept(self) -> bool:
        """Whether nobody has written into its files since."""
        return not self.dates or self.dates == tuple(
            copies.dated(os.path.join(self.folder, name)) for name in self.names
        )


class Store:
    """The versions of one place."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._singles: Optional[Dict[str, List[Single]]] = None
        """Looked for once: there may be thousands."""

    def next_folder(self) -> str:
        """For the next version."""
        return os.path.join(self.root, str(max(self._numbers(), default=0) + 1))

    def singles(self) -> Dict[str, List[Single]]:
        """Of files that stand for themselves, the oldest first. Those whose names differ in numbers are versions of
        each other: a script may keep the last epoch's alone."""
        if self._singles is None:
            self._singles = {}
            for number in self._numbers():
                top = os.path.join(self.root, str(number))
                if not os.path.lexists(os.path.join(top, _ABOUT)):
                    for name in _names(top):
                        self.add_single(Single(name, os.path.join(top, name)))
        return self._singles

    def add_single(self, one: Single) -> None:
        """It is there from now on."""
        self.singles().setdefault(search.family_of(one.name), []).append(one)

    def remove_single(self, one: Single) -> None:
        """It is not needed any more."""
        copies.remove(one.path, self.root)
        family = search.family_of(one.name)
        left = [other for other in self.singles().get(family, ()) if other != one]
        if left:
            self.singles()[family] = left
        else:
            self.singles().pop(family, None)

    def sets(self) -> Dict[str, List[SetVersion]]:
        """By their families, the oldest first."""
        kept: Dict[str, List[SetVersion]] = {}
        for number in self._numbers():
            version = _read(os.path.join(self.root, str(number)))
            if version is not None:
                kept.setdefault(version.family, []).append(version)
        return kept

    def begin(self) -> str:
        """A folder to put the files of a set into, which counts for nothing yet."""
        os.makedirs(self.root, exist_ok=True)
        folder = os.path.join(self.root, f".new.{os.urandom(4).hex()}")
        os.mkdir(folder)
        return folder

    def commit(self, folder: str, version: SetVersion) -> SetVersion:
        """From now on it is a version."""
        dates = (copies.dated(os.path.join(folder, name)) for name in version.names)
        version = version._replace(dates=tuple(one for one in dates if one is not None))
        _write(folder, version)
        version = version._replace(folder=self.next_folder())
        os.rename(folder, version.folder)
        return version

    def note(self, version: SetVersion) -> None:
        """More is known of it."""
        # Without room for this word there is none for a version, which is told.
        with contextlib.suppress(OSError):
            _write(version.folder, version)

    def put_aside(self, source: str, names: Sequence[str]) -> Optional[str]:
        """Keep what is going to be replaced, as the times may be misread; where it is then, if anything is. What
        was kept so before under the same names goes."""
        to, kept = os.path.join(self.root, _REPLACED), False
        for name in names:
            path = os.path.join(source, name)
            state = copies.state(path)
            # Without room the job still goes on from what is complete.
            with contextlib.suppress(OSError):
                kept = (
                    state is not None
                    and copies.taken_over(
                        path,
                        source,
                        os.path.join(to, name),
                        state,
                        may_link=True,
                        room=state.size,
                    )
                ) or kept
        return to if kept else None

    def remove_set(self, folder: str) -> None:
        """A version, or what was to become one; what is left of it then counts for nothing."""
        aside = os.path.join(self.root, f".old.{os.urandom(4).hex()}")
        try:
            os.rename(folder, aside)
        except FileNotFoundError:
            return
        copies.remove_tree(aside)

    def remove_leftovers(self) -> None:
        """Of versions that were being made or removed when the one who did it was killed."""
        for name in copies.listed(self.root):
            if name.startswith("."):
                copies.remove_tree(os.path.join(self.root, name))
        for path in list(copies.files(self.root)):
            if os.path.basename(path).startswith(".") and not self._is_about(path):
                copies.remove(path, self.root)
        for folder in reversed(copies.folders(self.root)):
            copies.remove_empty(folder)

    def _is_about(self, path: str) -> bool:
        folder, name = os.path.split(path)
        return name == _ABOUT and os.path.dirname(folder) == self.root

    def _numbers(self) -> List[int]:
        return sorted(int(name) for name in copies.listed(self.root) if is_number(name))


def _names(top: str) -> List[str]:
    paths = (path for path in copies.files(top) if not os.path.basename(path).startswith("."))
    return sorted((os.path.relpath(path, top) for path in paths), key=_by_numbers)


def _by_numbers(name: str) -> List[Union[int, str]]:
    """`rank10` after `rank2`."""
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


def _read(folder: str) -> Optional[SetVersion]:
    """None where it is none, or not whole: the job may have written there."""
    try:
        with copies.taken(os.path.join(folder, _ABOUT), os.path.realpath(folder)) as file:
            about: Any = json.loads(file.read(_MOST_OF_ABOUT))
        names = tuple(_names(folder))
        key, count, pause_s = str(about["key"]), int(about["files"]), float(about["pause_s"])
        seen = tuple((int(size), int(at_ns)) for size, at_ns in about.get("seen", ()))
        worlds = tuple(int(count) for count in about.get("worlds", ()))
        dates = tuple((int(size), int(at_ns)) for size, at_ns in about.get("dates", ()))
        is_loose = bool(about.get("is_loose"))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if len(names) != count or not {len(seen), len(dates)} <= {0, count}:
        return None
    return SetVersion(folder, key, names, pause_s, seen, is_loose, worlds, dates)


def _write(folder: str, version: SetVersion) -> None:
    about = {
        "key": version.key,
        "files": len(version.names),
        "pause_s": version.pause_s,
        "seen": version.seen,
        "is_loose": version.is_loose,
        "worlds": version.worlds,
        "dates": version.dates,
    }
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
