"""Which imports lead into the repository, where a helper module goes, and how a file imports it.

A repository that is flash_attn, or that carries a copy of it, does not need flash_attn from
elsewhere. A package inside another package (`mine.third_party.triton`) is not reached by its last
name, except from a script beside it and within a project of its own; a single file only from its own
folder or from the folder of a project.

A file in a package gets a helper inside that package, so that it is installed with it; a script gets it
beside itself. The repository's own imports decide: a folder whose modules are imported without the
package's name is where scripts start, even if it has an `__init__.py`."""

import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from jumar.port import distribution_lists
from jumar.port.patterns import lazy_pattern

_IMPORT = lazy_pattern(
    rb"^[ \t]*(?:from[ \t]+(?P<dots>\.*)(?P<base>[\w.]*)[ \t]+import[ \t]+"
    rb"(?P<names>\([^)]*\)|[^\r\n#;]*)|import[ \t]+(?P<modules>[^\r\n#;]*))",
    re.MULTILINE,
)
_WORD = lazy_pattern(rb"[\w.]+")
_STARTS = lazy_pattern(rb"^if[ \t]+__name__[ \t]*==|\.parse_args\(", re.MULTILINE)


class Home(NamedTuple):
    """The folders that get the helper, and the package that a file imports it from."""

    folders: tuple[str, ...]
    package: str = ""
    """`pkg.sub`, or dots for a relative import; empty if the helper is a top-level module."""
    is_unlisted: bool = False
    """Whether the distribution lists single modules, so the helper must be added to the list."""

    def module(self, helper: str) -> str:
        """What stands between `from` and `import`."""
        joint = "." if self.package and not self.package.endswith(".") else ""
        return f"{self.package}{joint}{helper}"

    def whole(self, helper: str, alias: str = "") -> str:
        """A statement that imports the helper itself."""
        named = f" as {alias}" if alias else ""
        return (
            f"from {self.package} import {helper}{named}"
            if self.package
            else f"import {helper}{named}"
        )


class _Import(NamedTuple):
    level: int
    dotted: str


class Homes:
    """The homes of a repository's files; all imports are read when the first home is needed."""

    def __init__(self, root: Path, files: frozenset[str]) -> None:
        self._root = root
        self._files = files
        self._tops = tops(files)
        self._listed = distribution_lists.read(root, files)
        self._imports = {path: tuple(_imports(self._bytes(path))) for path in sorted(files)}
        self._imported: set[str] = set()
        self.script_roots: set[str] = set()
        """Packages in which scripts start, so that their modules are imported without its name."""
        self._look_at_imports()

    def of(self, path: str) -> Home:
        """The home for one file."""
        folder = folder_of(path)
        if path not in self._files:
            # A notebook, which runs in its own folder.
            return self._beside(folder)
        imports = self._imports[path]
        chain = self._packages(path, is_relative=any(i.level for i in imports))
        start = max((n for n, f in enumerate(chain) if f in self.script_roots), default=-1)
        chain = chain[start + 1 :]
        if not chain or (start < 0 and self._is_script(path)):
            return self._beside(folder, is_unlisted=path in self._listed.modules)
        name = self._package_name(path, chain[0])
        return Home((chain[0],), name or "." * len(chain))

    def _beside(self, folder: str, *, is_unlisted: bool = False) -> Home:
        # A script in the top folder may import modules from folders that are not packages.
        has_scripts = folder != "." and any("/" not in f for f in self._files)
        return Home((folder, ".") if has_scripts else (folder,), is_unlisted=is_unlisted)

    def _packages(self, path: str, *, is_relative: bool) -> list[str]:
        """The folders of the package that holds a file, the outermost first."""
        folder = folder_of(path)
        chain: list[str] = []
        while folder != "." and (
            f"{folder}/__init__.py" in self._files
            or folder in self._listed.packages
            or (is_relative and not chain)
        ):
            chain.insert(0, folder)
            folder = folder_of(folder)
        return chain

    def _is_script(self, path: str) -> bool:
        """Whether a file of a package is started by its path: it knows no other file, and none it."""
        if self._listed.is_distribution or path in self._imported:
            return False
        knows_others = any(self._target(i, path) for i in self._imports[path])
        return not knows_others and _STARTS.search(self._bytes(path)) is not None

    def _package_name(self, path: str, top: str) -> str:
        """The name by which a file knows its package; empty if a relative import is right."""
        if any(i.level for i in self._imports[path]):
            return ""
        for one in self._imports[path]:
            found = self._target(one, path)
            if found is not None and found.startswith(f"{top}/"):
                base = PurePosixPath(_root_of(found, one.dotted))
                return ".".join(PurePosixPath(top).relative_to(base).parts)
        # An entry point may also be started by its path, where no relative import works.
        is_entry = path not in self._imported and _STARTS.search(self._bytes(path)) is not None
        return PurePosixPath(top).name if is_entry else ""

    def _look_at_imports(self) -> None:
        known_as_package: set[str] = set()
        for path, imports in self._imports.items():
            folder = folder_of(path)
            for one in imports:
                found = self._target(one, path)
                if one.level:
                    known_as_package.add(folder)
                if found is None or found == path:
                    continue
                self._imported.add(found)
                base = "" if one.level else _root_of(found, one.dotted)
                if f"{base}/__init__.py" in self._files:
                    self.script_roots.add(base)
                elif base and folder.startswith(f"{base}/" if base != "." else ""):
                    known_as_package.add(folder)
        self.script_roots -= known_as_package

    def _target(self, one: _Import, path: str) -> str | None:
        """The file of the repository that an import reaches."""
        stem = one.dotted.replace(".", "/")
        above = upwards(folder_of(path))
        if one.level:
            return at(above[min(one.level, len(above)) - 1], stem, self._files)
        top = stem.partition("/")[0]
        if top in sys.stdlib_module_names or top not in self._tops:
            return None
        return next((f for base in above if (f := at(base, stem, self._files))), None)

    def _bytes(self, path: str) -> bytes:
        try:
            return (self._root / path).read_bytes()
        except OSError:
            # Reported when the file is ported; here it imports nothing.
            return b""


def tops(files: Iterable[str]) -> frozenset[str]:
    """What an import of one of the repository's own modules can start with."""
    return frozenset(part for path in files for part in path.removesuffix(".py").split("/"))


def folder_of(path: str) -> str:
    """The folder that holds a file or folder of the repository."""
    return path.rpartition("/")[0] or "."


@cache
def upwards(folder: str) -> tuple[str, ...]:
    """A folder and those that contain it, up to the repository's own."""
    return (folder,) if folder == "." else (folder, *upwards(folder_of(folder)))


def at(folder: str, stem: str, files: frozenset[str]) -> str | None:
    """The file of a module below a folder; of the folder itself if the stem is empty."""
    if folder != ".":
        stem = f"{folder}/{stem}" if stem else folder
    for found in (f"{stem}.py", f"{stem}/__init__.py"):
        if found in files:
            return found
    return None


def _root_of(found: str, dotted: str) -> str:
    """The folder from which a dotted name leads to a file."""
    parts = found.removesuffix(".py").removesuffix("/__init__").split("/")
    return "/".join(parts[: len(parts) - len(dotted.split("."))]) or "."


def _imports(data: bytes) -> Iterator[_Import]:
    for match in _IMPORT.finditer(data):
        for module in (match["modules"] or b"").split(b","):
            first = _WORD.search(module)
            if first is not None:
                yield _Import(0, first[0].decode("utf-8", "replace"))
        if match["modules"] is None:
            level, base = len(match["dots"]), match["base"].decode("utf-8", "replace")
            yield _Import(level, base)
            for name in match["names"].strip(b"()").split(b","):
                first = _WORD.search(name)
                if first is not None:
                    text = first[0].decode("utf-8", "replace")
                    yield _Import(level, f"{base}.{text}" if base else text)


class OwnModules:
    """The modules of one repository by the names that import them."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = frozenset(files)
        self._stems: frozenset[str] | None = None
        self._projects: tuple[str, ...] = ()
        self._known: dict[tuple[str, str, bool], bool] = {}

    def has(self, dotted: str, path: str = "", *, is_script: bool = False) -> bool:
        """Whether an absolute import in a file leads into the repository."""
        key = dotted, path, is_script
        if key not in self._known:
            self._known[key] = self._look(dotted, path, is_script)
        return self._known[key]

    def _look(self, dotted: str, path: str, is_script: bool) -> bool:
        parts = dotted.split(".")
        stems = ["/".join(parts[:size]) for size in range(1, len(parts) + 1)]
        importable = self._importable()
        if any(stem in importable for stem in stems):
            return True
        home = str(PurePosixPath(path).parent)
        is_beside = is_script or not self._is_package(home)
        folders = (*self._projects, home) if is_beside else self._projects
        return any(
            self._holds(folder, parts[0], is_script and folder == home) for folder in folders
        ) or any(
            self._is_package(str(PurePosixPath(project, parts[0])))
            for project in self._projects
            if project not in ("", ".", "src") and path.startswith(f"{project}/")
        )

    def _holds(self, folder: str, name: str, packages_too: bool) -> bool:
        module = str(PurePosixPath(folder, name))
        return f"{module}.py" in self._files or (packages_too and self._is_package(module))

    def _importable(self) -> frozenset[str]:
        """Paths of modules in packages, from each folder that can be an import's starting point."""
        if self._stems is None:
            self._stems = frozenset(s for path in self._files for s in self._stems_of(path))
            setups = (PurePosixPath(p) for p in self._files if p.endswith("setup.py"))
            self._projects = ("", "src", *(str(p.parent) for p in setups if p.name == "setup.py"))
        return self._stems

    def _stems_of(self, path: str) -> Iterable[str]:
        parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
        folders = path.split("/")[:-1]
        for start in range(len(folders)):
            yield "/".join(parts[start:])
            if self._is_package("/".join(folders[: start + 1])):
                return

    def _is_package(self, folder: str) -> bool:
        return folder not in ("", ".") and f"{folder}/__init__.py" in self._files
