"""The code of a training: which files it has, and which of them a frame of a stack means."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from jumar.errors import JumarError

_MOST_BYTES = 1 << 20
_MOST_SEEN, _MOST_DEEP = 5_000, 6
_PASSED = frozenset(("__pycache__", "node_modules", "site-packages", "build", "dist", "wandb"))
_READ = (
    *(".py", ".sh", ".bash", ".slurm", ".sbatch", ".pbs", ".job"),
    *(".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".txt"),
)
"""What checks may read."""
_OTHER_BYTES = 64 * 1024
_ENVIRONMENT = "pyvenv.cfg"


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
        # Otherwise a file of a stack and the same one of a folder would have two names.
        self._roots = tuple(map(os.path.abspath, roots))
        self.is_sure = is_sure

    def meant(self, path: str) -> Iterator[str]:
        """The file itself where it is on this machine, or the one with the longest like end of its path."""
        for root in ("", *self._roots):
            whole = os.path.join(root, path)
            if os.path.isfile(whole):
                yield whole
        yield from ends_alike(path, self.names(""))

    def names(self, near: str) -> Sequence[str]:
        """What lies in the folders, or beside that file."""
        folder = os.path.dirname(near) or "."
        # A script in `tools` is of the same code as the package beside that folder.
        is_inside = any(_is_in(folder, root) for root in self._roots) and self.is_sure
        roots = [folder] if near and not is_inside else self._roots
        return [name for root in roots for name in _inside(root)]

    def open(self, name: str) -> int:
        """Only a plain file; whoever gives a pipe a file's name is not waited for."""
        return os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


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
    parts = path.replace("\\", "/").split("/")
    for start in range(len(parts)):
        end = "/".join(parts[start:])
        yield from (name for name in names if name == end or name.endswith(f"/{end}"))


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
    return found.decode("utf-8", "replace").removeprefix("\ufeff")


def _is_in(folder: str, root: str) -> bool:
    whole, top = os.path.realpath(folder), os.path.realpath(root)
    return whole == top or whole.startswith(f"{top}{os.sep}")


def _inside(root: str) -> Iterator[str]:
    seen = 0
    for folder, folders, names in os.walk(root):
        depth = os.path.relpath(folder, root).count(os.sep)
        if _ENVIRONMENT in names or depth >= _MOST_DEEP:
            folders.clear()
            continue
        folders[:] = sorted(
            name for name in folders if name not in _PASSED and not name.startswith(".")
        )
        seen += len(names) + len(folders)
        if seen > _MOST_SEEN:
            return
        yield from (os.path.join(folder, name) for name in sorted(names) if is_read(name))
