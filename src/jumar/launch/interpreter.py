"""Which Python a script runs with: that of the shell jumar is called from, wherever jumar itself lives."""

import os
import sys
from typing import Iterator, List, Mapping, Optional

_FRAMEWORKS = ("torch", "mindspore")
_NAMES = ("python3", "python")


def shell_python(environ: Mapping[str, str]) -> str:
    """The active environment's Python, else the first on PATH, else the one that runs this.

    An environment that was made for jumar alone (pipx, a site) may be on PATH for the sake of the
    command `jumar`; its Python is nobody's for training, so the next one is taken."""
    active = active_python(environ)
    if active is not None:
        return active
    found = list(_on_path(environ))
    if _is_for_jumar_alone():
        found = [path for path in found if not _is_own(path)]
    return found[0] if found else sys.executable


def active_python(environ: Mapping[str, str]) -> Optional[str]:
    """The Python of the activated environment; of two, the one that comes first on PATH."""
    folders = _folders(environ)
    found: List[str] = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        path = os.path.join(environ.get(variable) or "/nonexistent", "bin", "python")
        if _is_program(path):
            found.append(path)

    def place(path: str) -> int:
        folder = os.path.dirname(path)
        return folders.index(folder) if folder in folders else len(folders)

    return min(found, key=place) if found else None


def has_framework() -> bool:
    """Whether the Python that runs this can train: it finds torch or MindSpore."""
    import importlib.util

    return any(importlib.util.find_spec(name) is not None for name in _FRAMEWORKS)


def _is_for_jumar_alone() -> bool:
    return sys.prefix != sys.base_prefix and not has_framework()


def _on_path(environ: Mapping[str, str]) -> Iterator[str]:
    folders = _folders(environ)
    for name in _NAMES:
        for folder in folders:
            path = os.path.join(folder, name)
            if _is_program(path):
                yield path


def _folders(environ: Mapping[str, str]) -> List[str]:
    return [one for one in environ.get("PATH", os.defpath).split(os.pathsep) if one]


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _is_own(path: str) -> bool:
    own = os.path.realpath(os.path.dirname(sys.executable))
    return os.path.realpath(os.path.dirname(path)) == own


def own_program() -> List[str]:
    """How this launcher is started once more: as the module, or the file that it came in."""
    if sys.argv[0].endswith(".pyz"):
        return [sys.executable, os.path.abspath(sys.argv[0])]
    # A file in the current folder must not be imported in place of ours.
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *safe, "-m", "jumar.launch"]
