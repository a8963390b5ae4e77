"""Find the files of a repository and the kind of each; never follows a link to a folder."""

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from jumar.errors import BadInput

_GIT = ".git"
SKIPPED_FOLDERS = frozenset(
    {
        _GIT,
        ".hg",
        ".svn",
        "__pycache__",
        ".venv",
        "venv",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
    }
)
REPORT_FOLDER = "jumar-report"
CANNOT_BE_READ = "cannot be read"
NOT_A_PLAIN_FILE = "is not a plain file"
_TEST_FOLDER = re.compile(r"(?:^|/)(?:unit_?|integration_?)?tests?(?:_\w+)?/", re.IGNORECASE)
_TEST_FILE = re.compile(r"(?:^|/)(?:test_\w+|\w+_test)\.py$")
_TEST_TOOLS = frozenset({"pytest", "unittest"})


class FileKind(Enum):
    """How a file is ported."""

    PYTHON = auto()
    NOTEBOOK = auto()
    SHELL = auto()
    MAKE = auto()
    CONFIG = auto()
    DOCUMENT = auto()
    REQUIREMENTS = auto()
    DOCKER = auto()
    CUDA = auto()
    OTHER = auto()


_SUFFIXES = {
    ".py": FileKind.PYTHON,
    ".pyw": FileKind.PYTHON,
    ".ipynb": FileKind.NOTEBOOK,
    ".sh": FileKind.SHELL,
    ".bash": FileKind.SHELL,
    ".slurm": FileKind.SHELL,
    ".sbatch": FileKind.SHELL,
    ".mk": FileKind.MAKE,
    ".yaml": FileKind.CONFIG,
    ".yml": FileKind.CONFIG,
    ".toml": FileKind.CONFIG,
    ".json": FileKind.CONFIG,
    ".ini": FileKind.CONFIG,
    ".cfg": FileKind.CONFIG,
    ".md": FileKind.DOCUMENT,
    ".mdx": FileKind.DOCUMENT,
    ".rst": FileKind.DOCUMENT,
    ".def": FileKind.DOCKER,
    ".cu": FileKind.CUDA,
    ".cuh": FileKind.CUDA,
}


_CONDA = frozenset(f"{n}.{s}" for n in ("environment", "env", "conda") for s in ("yml", "yaml"))


class Found(NamedTuple):
    """One file below the source, by its relative path."""

    path: str
    kind: FileKind
    size: int
    mtime_ns: int
    is_link: bool = False
    problem: str = ""


def check_root(root: Path) -> None:
    """BadInput unless it is a folder."""
    if not root.exists():
        raise BadInput(f"no such folder: {root}", hint="pass the folder of your training code")
    if not root.is_dir():
        raise BadInput(f"{root} is not a folder", hint="pass the folder, not a file in it")


def scan(root: Path, exclude: tuple[str, ...] = ()) -> list[Found]:
    """All files below a folder, sorted; folders that are links are listed, not entered."""
    check_root(root)
    try:
        return sorted(_walk(str(root), "", exclude), key=lambda f: f.path)
    except PermissionError as error:
        raise BadInput(
            f"cannot read {error.filename}", hint="check the permissions of the folder"
        ) from error


def _walk(folder: str, prefix: str, exclude: tuple[str, ...]) -> Iterator[Found]:
    folders: list[tuple[str, str]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            path = prefix + entry.name
            if entry.name == _GIT:
                # In a worktree or a submodule it is a file, and a copy would point to the source.
                continue
            if entry.is_symlink():
                yield Found(path, FileKind.OTHER, 0, 0, is_link=True)
            elif entry.is_dir():
                if entry.name not in SKIPPED_FOLDERS and path != REPORT_FOLDER:
                    folders.append((entry.path, f"{path}/"))
            elif entry.is_file():
                yield _found(entry, path, exclude)
            else:
                # A pipe would block its reader; a device or a socket is not code.
                yield Found(path, FileKind.OTHER, 0, 0, problem=NOT_A_PLAIN_FILE)
    for path, below in folders:
        try:
            yield from _walk(path, below, exclude)
        except PermissionError:
            yield Found(below.rstrip("/"), FileKind.OTHER, 0, 0, problem=CANNOT_BE_READ)


def _found(entry: os.DirEntry[str], path: str, exclude: tuple[str, ...]) -> Found:
    status = entry.stat()
    left_alone = any(fnmatch.fnmatch(path, pattern) for pattern in exclude)
    kind = FileKind.OTHER if left_alone else kind_of(path)
    return Found(path, kind, status.st_size, status.st_mtime_ns)


def kind_of(path: str) -> FileKind:
    """How a file is ported, by its name."""
    name = path.rpartition("/")[2].lower()
    inner = name.removesuffix(".j2").removesuffix(".jinja")
    if inner != name:
        # Of templates, only those of shell scripts are read: line by line, as scripts are.
        kind = _SUFFIXES.get(os.path.splitext(inner)[1], FileKind.OTHER)
        return kind if kind is FileKind.SHELL else FileKind.OTHER
    if name.endswith(".txt"):
        return FileKind.REQUIREMENTS if "requirement" in name else FileKind.OTHER
    if name in _CONDA:
        return FileKind.REQUIREMENTS
    if name.startswith("dockerfile") or name.endswith(".dockerfile"):
        return FileKind.DOCKER
    if name in ("makefile", "gnumakefile"):
        return FileKind.MAKE
    return _SUFFIXES.get(os.path.splitext(name)[1], FileKind.OTHER)


def is_test(path: str, imports: Iterable[str]) -> bool:
    """Whether a file is part of the tests; a script called `test.py` is not."""
    if path.rpartition("/")[2] == "conftest.py" or _TEST_FOLDER.search(path):
        return True
    return bool(_TEST_FILE.search(path)) and not _TEST_TOOLS.isdisjoint(imports)
