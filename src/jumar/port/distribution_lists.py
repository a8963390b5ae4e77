"""Which packages and modules pip installs from a repository, as its packaging files list them.

Read by what they have in common: setup.py, setup.cfg and the tables of setuptools, hatch, poetry,
pdm and flit in pyproject.toml. Packages that are found by their `__init__.py` are listed nowhere."""

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from jumar.port.patterns import lazy_pattern

_FILES = ("setup.py", "setup.cfg", "pyproject.toml")
_PACKAGES = lazy_pattern(
    r"\b(?:packages|include|only-include)[\"']?\s*[=:]\s*"
    r"(?P<names>\[[^\]]*\]|[\"'][\w./*-]+[\"']|(?:\s*[\w.]+[ \t]*\n)+)"
)
_MODULES = lazy_pattern(
    r"\bpy[-_]modules\b\s*=\s*(?P<names>\[[^\]]*\]|[\"'][\w]+[\"']|(?:\s*\w+[ \t]*\n)+)"
)
_FLIT_MODULE = lazy_pattern(r"\[tool\.flit\.module\]\s*name\s*=\s*[\"'](?P<names>\w+)[\"']")
_NAME = lazy_pattern(r"[A-Za-z_]\w*(?:[./][A-Za-z_]\w*)*")


class Listed(NamedTuple):
    """What a distribution consists of, as paths below the repository."""

    is_distribution: bool
    packages: frozenset[str]
    """Folders that are packages, whether they have an `__init__.py` or not."""
    modules: frozenset[str]
    """Single files."""


def read(root: Path, files: frozenset[str]) -> Listed:
    """What the packaging files in the top folder list."""
    texts = [_text(root / name) for name in _FILES if (root / name).is_file()]
    folders = {str(p) for f in files for p in PurePosixPath(f).parents}
    packages = {
        folder
        for name in _names(texts, _PACKAGES)
        for folder in folders
        if folder == name or folder.endswith(f"/{name}")
    }
    modules = {
        f
        for name in (*_names(texts, _MODULES), *_names(texts, _FLIT_MODULE))
        for f in (f"{name}.py", f"src/{name}.py")
        if f in files
    }
    if texts:
        # Below `src` there are packages only; setuptools finds them without an `__init__.py`.
        packages |= {folder for folder in folders if folder.startswith("src/")}
    return Listed(bool(texts), frozenset(packages), frozenset(modules))


def _names(texts: Iterable[str], lists: re.Pattern[str]) -> set[str]:
    return {
        name.replace(".", "/")
        for text in texts
        for match in lists.finditer(text)
        for name in _NAME.findall(match["names"])
    }


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
