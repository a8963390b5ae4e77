"""The code of a training: which files it has, and which of them a frame of a stack means."""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Protocol

from jumar.errors import JumarError

_MOST_BYTES = 1 << 20
_MOST_SEEN, _MOST_FOUND, _MOST_DEEP = 100_000, 5_000, 6
"""Data often lie beside the code, so that many more files are seen than are of use."""
_PASSED = frozenset(("__pycache__", "node_modules", "site-packages", "build", "dist", "wandb"))
_READ = (
    *(".py", ".sh", ".bash", ".slurm", ".sbatch", ".pbs", ".job"),
    *(".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".txt"),
)
"""What checks may read."""
_OTHER_BYTES = 64 * 1024
_ENVIRONMENT = "pyvenv.cfg"
# A form feed at the start of a line begins that line anew; elsewhere it is a blank.
_BEGUN_ANEW = re.compile(r"^[ \t\f]*\f", re.MULTILINE)
_NO_LINE_ENDS = {ord(one): " " for one in "\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
"""What ends a line for `str.splitlines`, and none for Python: lines would have other numbers than in a stack."""


class Code(Protocol):
    """The files of a training's code, by their paths inside of it."""

    @property
    def is_sure(self) -> bool:
        """Whether this is known to be its code, even where no stack names one of the files."""
        ...

    @property
    def command(self) -> Sequence[str]:
        """How it was started, where that is known."""
        ...

    def meant(self, path: str) -> Iterator[str]:
        """The files that a path of a stack may mean, the likeliest first."""
        ...

    def names(self, near: str) -> Sequence[str]:
        """The files that may be read, no more than some thousand; `near` is one that a stack names, or empty."""
        ...

    def open(self, name: str) -> int:
        """A descriptor, which is closed after use; OSError and JumarError."""
        ...


class Folders:
    """Code that lies in folders of this machine."""

    command: Sequence[str] = ()

    def __init__(self, roots: Sequence[str], *, is_sure: bool) -> None:
        self._roots = tuple(roots)
        self._found: dict[tuple[str, ...], Sequence[str]] = {}
        self.is_sure = is_sure

    def meant(self, path: str) -> Iterator[str]:
        """The file itself where it is on this machine, or the one with the longest like end of its path."""
        for root in ("", *self._roots):
            whole = os.path.join(root, path)
            if os.path.isfile(whole):
                yield os.path.normpath(whole)
        yield from ends_alike(path, self.names(""))

    def names(self, near: str) -> Sequence[str]:
        """What lies in the folders, or beside that file."""
        folder = os.path.dirname(near) or "."
        # A script in `tools` is of the same code as the package beside that folder.
        is_inside = any(_is_in(folder, root) for root in self._roots) and self.is_sure
        roots = [folder] if near and not is_inside else self._roots
        fitted = os.path.abspath if os.path.isabs(near) else os.path.relpath
        # As the stack names its files: one that has two names would be taken for two.
        fit = fitted if near else os.path.normpath
        return self._listed(*[fit(root or ".") for root in roots])

    def _listed(self, *roots: str) -> Sequence[str]:
        """Looked up once, however many frames ask."""
        if roots not in self._found:
            self._found[roots] = _listed(*roots)
        return self._found[roots]

    def open(self, name: str) -> int:
        """Only a plain file: to open a device may do something, and nobody waits for a pipe."""
        if not stat.S_ISREG(os.stat(name).st_mode):
            raise FileNotFoundError(name)
        return os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def is_read(name: str) -> bool:
    """Whether checks may read such a file."""
    return name.endswith(_READ)


def has_python(folder: str) -> bool:
    """Whether Python files lie right in a folder."""
    with suppress(OSError), os.scandir(folder or ".") as found:
        return any(one.name.endswith(".py") for one in found)
    return False


def ends_alike(path: str, names: Sequence[str]) -> Iterator[str]:
    """The files whose path ends like this one, the longest like ends first."""
    parts = path.replace("\\", "/").split("/")[::-1]
    found = [name for name in names if name == parts[0] or name.endswith(f"/{parts[0]}")]
    yield from sorted(found, key=lambda name: -_alike(parts, name.split("/")[::-1]))


def _alike(parts: Sequence[str], others: Sequence[str]) -> int:
    """How many of these are the same before the first that differs."""
    differ = (
        at for at, (one, other) in enumerate(zip(parts, others, strict=False)) if one != other
    )
    return next(differ, min(len(parts), len(others)))


def text_of(code: Code, name: str) -> str | None:
    """A file of the code; None where it is too large, no text, or gone."""
    most = _MOST_BYTES if name.endswith(".py") else _OTHER_BYTES
    try:
        fd = code.open(name)
    except (OSError, JumarError, ValueError):
        return None
    try:
        found = os.pread(fd, most + 1, 0)
    except OSError:
        # A folder, or a pipe.
        return None
    finally:
        os.close(fd)
    if len(found) > most or b"\0" in found:
        return None
    return _with_python_lines(found.decode("utf-8", "replace").removeprefix("\ufeff"))


def _with_python_lines(text: str) -> str:
    """The same with the lines that Python counts."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _BEGUN_ANEW.sub("", text).translate(_NO_LINE_ENDS)


def _listed(*roots: str) -> Sequence[str]:
    found = (name for root in roots for name in islice(_inside(root), _MOST_FOUND))
    return [os.path.normpath(name) for name in found]


def _is_in(folder: str, root: str) -> bool:
    whole, top = os.path.realpath(folder), os.path.realpath(root)
    return whole == top or whole.startswith(f"{top}{os.sep}")


def _inside(root: str) -> Iterator[str]:
    """The files of a folder before those in its folders."""
    seen, waiting = 0, [(root, 0)]
    while waiting and seen < _MOST_SEEN:
        folder, depth = waiting.pop()
        found = _entries(folder, _MOST_SEEN - seen)
        seen += len(found) + 1
        if depth > _MOST_DEEP or any(entry.name == _ENVIRONMENT for entry in found):
            continue
        yield from (os.path.join(folder, one.name) for one in found if is_read(one.name))
        below = (one.name for one in reversed(found) if _is_walked(one))
        waiting += [(os.path.join(folder, name), depth + 1) for name in below]


def _entries(folder: str, most: int) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as found:
        return sorted(islice(found, most), key=lambda one: one.name)
    return []


def _is_walked(entry: os.DirEntry[str]) -> bool:
    is_passed = entry.name in _PASSED or entry.name.startswith(".")
    return not is_passed and entry.is_dir(follow_symlinks=False)
