"""The repository's own modules: where an import leads, and what a module re-exports.

Modules are parsed only when a name is followed into them, and only their top level is read."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jumar.port.homes import Home, Homes, OwnModules, at, folder_of, tops, upwards
from jumar.port.names import Bound, import_base
from jumar.port.packages import Newest
from jumar.port.patterns import lazy_pattern
from jumar.port.source import Undecodable, parse, read

_SOURCES = "src"
"""The folder in which many repositories keep the packages that they install."""
OWN = "::"
"""Marks a name that is defined in the repository itself: `::utils/net.py::Net`."""
MAX_PYTHON_BYTES = 4_000_000
"""Larger files are neither ported nor followed."""
MAX_KEPT_TREES = 60
"""Trees kept until their file is ported; more would cost too much memory."""
_MAX_KEPT_BYTES = 4_000_000
"""Python text whose surfaces are kept; their definitions take about 30 times as much memory."""

_LIGHTNING = lazy_pattern(
    rb"\b(?:import|from)[ \t]+(?:pytorch_)?lightning|[\"'](?:pytorch_)?lightning\."
)
_SET_ON_CUDA = re.compile(
    rb"\btorch\.cuda\.(\w+)[ \t]*=[^=]|\bsetattr\(\s*torch\.cuda\s*,\s*[\"'](\w+)"
)
_BACKEND = lazy_pattern(rb"(?:[\"'.]|--)([A-Za-z_-]*backend)\b(?!\(|[\"']\]\s*=[^=])")
"""A setting by its name in a string or as an attribute, unless it is only written."""


@dataclass(slots=True)
class Surface:
    """What importing a module can provide: its top-level names and star imports."""

    names: dict[str, Bound] = field(default_factory=dict[str, Bound])
    stars: list[str] = field(default_factory=list[str])


class Project:
    """The Python files below one folder, by the module names that reach them."""

    def __init__(self, root: Path, paths: Iterable[str]) -> None:
        self._root = root
        self._files = frozenset(paths)
        self._tops = tops(self._files)
        self.cuda_classes: frozenset[str] = frozenset()
        """Classes of the repository that define a `cuda` method themselves; see `look_around`."""
        self.cuda_members: frozenset[str] = frozenset()
        """What those that are no modules have besides, such as `to_dict` of a batch."""
        self.uses_lightning = True
        """Whether a module imports Lightning; see `look_around`."""
        self.backends_read: frozenset[str] | None = None
        """Names of settings for a backend that modules read; see `look_around`."""
        self.set_on_cuda: frozenset[str] = frozenset()
        """Names that the repository itself adds to `torch.cuda`; see `look_around`."""
        self._homes: Homes | None = None
        self.own_modules = OwnModules(self._files)
        self.pins: dict[str, Newest] = {}
        """The newest versions that requirement lists allow, by top-level module; see `repository.py`."""
        self._surfaces: dict[str, Surface] = {}
        self._trees: dict[str, tuple[str, ast.Module]] = {}
        self._kept_bytes = 0
        self._found: dict[tuple[str, str], str | None] = {}
        self._methods: dict[str, list[list[str]]] = {}

    def look_around(self) -> None:
        """Record what rules must know about all files before the first one is ported."""
        found: list[ast.ClassDef] = []
        backends: set[str] = set()
        added: set[str] = set()
        self.uses_lightning = False
        for path in self._files:
            try:
                data = (self._root / path).read_bytes()
                # The word alone is found far more quickly than what may be around it.
                if b"lightning" in data and not self.uses_lightning:
                    self.uses_lightning = _LIGHTNING.search(data) is not None
                if b"backend" in data:
                    backends |= {m[1].decode().replace("-", "_") for m in _BACKEND.finditer(data)}
                if b"torch.cuda" in data:
                    added |= {(m[1] or m[2]).decode() for m in _SET_ON_CUDA.finditer(data)}
                if b"def cuda(" in data:
                    found += _definers_of_cuda(ast.parse(data))
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                continue
        self.cuda_classes = frozenset(node.name for node in found)
        self.cuda_members = frozenset(
            name for node in found if not node.bases for name in _members(node)
        )
        self.backends_read = frozenset(backends)
        self.set_on_cuda = frozenset(added)

    def parameter_of_methods(self, name: str, position: int) -> str:
        """The parameter at a position of every method of this name, if they agree."""
        if name not in self._methods:
            self._methods[name] = list(self._signatures(name))
        found = {p[position] if position < len(p) else "" for p in self._methods[name]}
        return found.pop() if len(found) == 1 else ""

    def _signatures(self, name: str) -> Iterator[list[str]]:
        for path in sorted(self._files):
            try:
                data = (self._root / path).read_bytes()
                tree = ast.parse(data) if f"def {name}(".encode() in data else ast.Module([], [])
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            for owner in (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)):
                for method in owner.body:
                    if isinstance(method, ast.FunctionDef) and method.name == name:
                        yield [a.arg for a in (*method.args.posonlyargs, *method.args.args)][1:]

    def take_tree(self, path: str, text: str) -> ast.Module | None:
        """The tree of a module that was parsed earlier; each is handed out once."""
        kept = self._trees.pop(path, None)
        return kept[1] if kept is not None and kept[0] == text else None

    def learn(self, path: str, text: str, tree: ast.Module) -> None:
        """Remember what a module provides while its tree is available."""
        if path in self._files and path not in self._surfaces:
            self._surfaces[path] = self._surface_of(path, text, tree)

    def make_room(self) -> bool:
        """Forget what modules provide if that takes much memory; it can be read again."""
        is_full = self._kept_bytes > _MAX_KEPT_BYTES
        if is_full:
            self._surfaces.clear()
            self._trees.clear()
            self._kept_bytes = 0
        return is_full

    def package_of(self, path: str) -> str:
        """Dotted package of a file, counted from the root of the repository."""
        folder = folder_of(path)
        return "" if folder == "." else folder.replace("/", ".")

    def home(self, path: str) -> Home:
        """Where a helper module goes that a file imports."""
        return self.find_homes().of(path)

    def find_homes(self) -> Homes:
        """Read all imports of the repository, unless this has been done."""
        if self._homes is None:
            self._homes = Homes(self._root, self._files)
        return self._homes

    def follow(self, dotted: str, path: str, hops: int = 0) -> str | None:
        """What a dotted name means in a file, followed through re-exports as far as possible."""
        top = dotted.partition(".")[0]
        if top not in self._tops or top == "torch" or hops > 10:
            return dotted
        module, rest = self._split(dotted, path)
        if module is None:
            return dotted
        if not rest:
            return f"{OWN}{module}"
        return self._member(module, rest, hops)

    def _member(self, module: str, rest: list[str], hops: int) -> str | None:
        surface = self._surface(module)
        name, *more = rest
        tail = "".join(f".{part}" for part in more)
        if name in surface.names:
            bound = surface.names[name]
            dotted = _dotted(bound, surface)
            if dotted is None:
                return f"{OWN}{module}{OWN}{name}{tail}"
            return self.follow(dotted + tail, module, hops + 1)
        for star in surface.stars:
            target = self.follow(f"{star}.{name}{tail}", module, hops + 1)
            if target is not None and target != f"{star}.{name}{tail}":
                return target
        return None

    def definition(self, qualified: str | None) -> Bound:
        """The class or function that defines a followed name, if it is the repository's."""
        if qualified is None or not qualified.startswith(OWN):
            return None
        module, _, name = qualified[len(OWN) :].partition(OWN)
        return self._surface(module).names.get(name) if name else None

    def imports(self, module: str) -> frozenset[str]:
        """The top-level packages that a module of the repository imports."""
        surface = self._surface(module)
        bound = (*surface.stars, *(b for b in surface.names.values() if isinstance(b, str)))
        return frozenset(dotted.partition(".")[0] for dotted in bound)

    def name_in(self, module: str, node: ast.AST) -> str | None:
        """The dotted name that an expression refers to at the top level of another module."""
        surface = self._surface(module)
        dotted = _dotted(node, surface) if isinstance(node, (ast.Name, ast.Attribute)) else None
        if dotted is not None:
            return self.follow(dotted, module)
        if isinstance(node, ast.Name) and node.id in surface.names:
            return f"{OWN}{module}{OWN}{node.id}"
        return None

    def _split(self, dotted: str, path: str) -> tuple[str | None, list[str]]:
        parts = dotted.split(".")
        folder = folder_of(path)
        for size in range(len(parts), 0, -1):
            module = self._find("/".join(parts[:size]), folder)
            if module is not None:
                return module, parts[size:]
        return None, []

    def _find(self, stem: str, folder: str) -> str | None:
        key = stem, folder
        if key not in self._found:
            self._found[key] = self._search(stem, folder)
        return self._found[key]

    def _search(self, stem: str, folder: str) -> str | None:
        bases = upwards(folder)
        for base in (*bases, *(_SOURCES if b == "." else f"{b}/{_SOURCES}" for b in bases)):
            found = at(base, stem, self._files)
            if found is not None and self._starts_imports(base):
                return found
        return None

    def _starts_imports(self, folder: str) -> bool:
        """Whether plain imports start in a folder: in a package, `import ray` is not its `ray.py`."""
        is_package = f"{folder}/__init__.py" in self._files
        return not is_package or folder in self.find_homes().script_roots

    def _surface(self, path: str) -> Surface:
        if path not in self._surfaces:
            self._surfaces[path] = self._read(path)
        return self._surfaces[path]

    def _read(self, path: str) -> Surface:
        try:
            data = (self._root / path).read_bytes()
            if len(data) > MAX_PYTHON_BYTES:
                return Surface()
            text = read(data, python=True).text
            tree = parse(text)
        except (OSError, Undecodable, SyntaxError, ValueError, RecursionError, MemoryError):
            # Such a file is reported when it is ported; here it just provides no names.
            return Surface()
        if tree.clean and len(self._trees) < MAX_KEPT_TREES:
            self._trees[path] = text, tree.module
        return self._surface_of(path, text, tree.module)

    def _surface_of(self, path: str, text: str, tree: ast.Module) -> Surface:
        surface = Surface()
        _top_level(tree.body, surface, self.package_of(path))
        self._kept_bytes += len(text)
        return surface


def _definers_of_cuda(tree: ast.Module) -> list[ast.ClassDef]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(f, ast.FunctionDef) and f.name == "cuda" for f in node.body)
    ]


def _members(owner: ast.ClassDef) -> Iterator[str]:
    """Names of methods and of attributes that it sets."""
    for node in ast.walk(owner):
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _dotted(bound: Bound, surface: Surface) -> str | None:
    if isinstance(bound, str):
        return bound
    attributes: list[str] = []
    while isinstance(bound, ast.Attribute):
        attributes.append(bound.attr)
        bound = bound.value
    if isinstance(bound, ast.Name):
        base = surface.names.get(bound.id)
        if isinstance(base, str):
            return ".".join([base, *reversed(attributes)])
    return None


def _top_level(body: list[ast.stmt], surface: Surface, package: str) -> None:
    for statement in body:
        if isinstance(statement, ast.Import):
            _plain_import(statement, surface)
        elif isinstance(statement, ast.ImportFrom):
            _from_import(statement, surface, package)
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    surface.names.setdefault(target.id, statement.value)
        elif isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            surface.names[statement.name] = statement
        elif isinstance(statement, (ast.If, ast.Try, ast.With)):
            _top_level(_inner(statement), surface, package)


def _inner(statement: ast.If | ast.Try | ast.With) -> list[ast.stmt]:
    inner = list(statement.body)
    if isinstance(statement, (ast.If, ast.Try)):
        inner += statement.orelse
    if isinstance(statement, ast.Try):
        inner += [one for handler in statement.handlers for one in handler.body]
        inner += statement.finalbody
    return inner


def _plain_import(statement: ast.Import, surface: Surface) -> None:
    for alias in statement.names:
        root = alias.name.partition(".")[0]
        surface.names[alias.asname or root] = alias.name if alias.asname else root


def _from_import(statement: ast.ImportFrom, surface: Surface, package: str) -> None:
    base = import_base(statement, package)
    for alias in statement.names:
        if alias.name == "*":
            surface.stars.append(base)
        else:
            surface.names.setdefault(alias.asname or alias.name, f"{base}.{alias.name}")
