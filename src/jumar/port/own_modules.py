"""Which absolute imports mean the repository's own packages: itself, its parts, copies of others.

A repository that is flash_attn, or that carries a copy of it, does not need flash_attn from
elsewhere. A package inside another package (`mine.third_party.triton`) is not reached by its last
name, except from a script beside it and within a project of its own; a single file only from its own folder or from the folder of a
project."""

from collections.abc import Iterable
from pathlib import PurePosixPath


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
