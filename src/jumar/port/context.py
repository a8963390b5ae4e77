"""One Python file as rules see it: its text, its tree, and what its names refer to."""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from jumar.port.homes import Home
from jumar.port.names import Bound, Names, Scope
from jumar.port.options import Options
from jumar.port.prelude import Spelling
from jumar.port.project import OWN, Project
from jumar.port.records import ApiUse, Effort, Guard, Kind, Piece, Proposal, Remark, Severity, Words
from jumar.port.source import Source

# Before 3.12, the parser guesses where the parts of an f-string are.
_EXACT_IN_F_STRINGS = sys.version_info >= (3, 12)

_READ_SETTINGS = frozenset({"mmcv", "mmengine"})
"""Packages that settings written in Python may import."""
_TORCH = re.compile(r"\btorch\.\w|\.cuda\(")
_FUTURE = frozenset({"__future__"})


class Unplaced(Exception):
    """The position of a node inside an f-string is unknown; the rule leaves it alone."""


@dataclass(slots=True, eq=False)
class PythonFile:
    """The context that each rule gets."""

    path: str
    source: Source
    tree: ast.Module
    names: Names
    options: Options
    project: Project
    say: Spelling
    """How this file writes torch and the prelude's names."""
    answers: dict[tuple[str, str], bool] = field(default_factory=dict[tuple[str, str], bool])
    """Questions about the whole file that several nodes ask, with their answers."""
    replaced: frozenset[str] = frozenset()
    """Names of CUDA-only packages whose imports this port replaces."""
    guards: dict[ast.AST, Guard] | None = None
    """The checks for CUDA that stay, once they are known (`guards.py`)."""
    spelled: list[ast.AST] | None = None
    """The texts that are spelled like a device, once they are known (`literals.py`)."""
    _is_configuration: bool | None = None
    _qualified: dict[ast.AST, str | None] = field(default_factory=dict[ast.AST, "str | None"])
    _of_torch: dict[type[ast.AST], list[ast.AST]] = field(
        default_factory=dict[type[ast.AST], list[ast.AST]]
    )
    _spans: dict[ast.AST, tuple[int, int]] = field(default_factory=dict[ast.AST, tuple[int, int]])

    # --- names

    def name(self, node: ast.AST) -> str | None:
        """The dotted name that an expression refers to."""
        try:
            return self._qualified[node]
        except KeyError:
            name = self._qualified[node] = self.names.qualified(node)
            return name

    def torch_nodes(self, kind: type[ast.AST]) -> list[ast.AST]:
        """The names or attributes that refer to something of torch."""
        if kind not in self._of_torch:
            nodes = self.names.leading_nodes(kind)
            self._of_torch[kind] = [n for n in nodes if (self.name(n) or "")[:5] == "torch"]
        return self._of_torch[kind]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The parent node."""
        return self.names.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The ancestors of a node, nearest first."""
        current = self.names.parents.get(node)
        while current is not None:
            yield current
            current = self.names.parents.get(current)

    def scope(self, node: ast.AST) -> Scope:
        """The scope that a node is evaluated in."""
        return self.names.scope_of(node)

    def bound(self, node: ast.AST) -> list[Bound]:
        """Everything that a name was ever bound to; nothing for what is no name."""
        return self.names.values(node.id, self.scope(node)) if isinstance(node, ast.Name) else []

    def own_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The repository's class that an expression is surely an instance of."""
        if isinstance(node, ast.Name):
            if node.id == "self":
                return self.enclosing_class(node)
            for bound in self.bound(node):
                if isinstance(bound, ast.Call):
                    return self.class_named(bound.func)
                if isinstance(bound, ast.arg) and bound.annotation is not None:
                    return self.class_named(bound.annotation)
            return None
        if isinstance(node, ast.Call):
            return self.class_named(node.func)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._class_of_attribute(node)
        return None

    def _class_of_attribute(self, node: ast.Attribute) -> ast.ClassDef | None:
        assert isinstance(node.value, ast.Name)
        holder = self.own_class(node.value)
        for statement in ast.walk(holder) if holder is not None else ():
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                for target in statement.targets:
                    if (
                        isinstance(target, ast.Attribute)
                        and target.attr == node.attr
                        and isinstance(target.value, ast.Name)
                        and target.value.id == "self"
                    ):
                        return self.class_named(statement.value.func)
        return None

    def class_named(self, node: ast.AST) -> ast.ClassDef | None:
        """The repository's class that an expression names."""
        if isinstance(node, ast.Name):
            for bound in self.bound(node):
                if isinstance(bound, ast.ClassDef):
                    return bound
        bound = self.project.definition(self.name(node))
        return bound if isinstance(bound, ast.ClassDef) else None

    def function_named(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The repository's function that an expression names."""
        if isinstance(node, ast.Name):
            for bound in self.bound(node):
                if isinstance(bound, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    return bound
        bound = self.project.definition(self.name(node))
        return bound if isinstance(bound, (ast.FunctionDef, ast.AsyncFunctionDef)) else None

    def parameter(self, call: ast.Call, position: int) -> str:
        """Name of the parameter that an argument is passed to, for the repository's own functions."""
        function, skipped = self.function_named(call.func), 0
        if function is None:
            function, skipped = self._method_called(call.func), 1
        if function is None:
            return ""
        parameters = [*function.args.posonlyargs, *function.args.args][skipped:]
        return parameters[position].arg if position < len(parameters) else ""

    def _method_called(self, called: ast.expr) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The method of its own class that `self.method(…)` calls, or what makes an object."""
        if isinstance(called, ast.Attribute) and getattr(called.value, "id", "") == "self":
            owner, wanted = self.enclosing_class(called), called.attr
        else:
            owner, wanted = self.class_named(called), "__init__"
        return next(
            (
                f
                for f in (owner.body if owner is not None else ())
                if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)) and f.name == wanted
            ),
            None,
        )

    @property
    def home(self) -> Home:
        """Where this file imports helper modules from."""
        return self.project.home(self.path)

    @property
    def is_configuration(self) -> bool:
        """Whether the file only assigns settings, without torch or any package that may use it."""
        if self._is_configuration is None:
            self._is_configuration = not (
                _TORCH.search(self.source.text)
                or self.names.knows("torch")
                or any(_is_of_a_program(statement) for statement in self.tree.body)
            )
        return self._is_configuration

    def is_own(self, node: ast.AST) -> bool:
        """Whether a name is defined in the repository itself."""
        return (self.name(node) or "").startswith(OWN)

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class whose body holds a node."""
        return next((a for a in self.ancestors(node) if isinstance(a, ast.ClassDef)), None)

    def enclosing_function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function whose body holds a node."""
        return next(
            (
                a
                for a in self.ancestors(node)
                if isinstance(a, (ast.FunctionDef, ast.AsyncFunctionDef))
            ),
            None,
        )

    def is_annotation(self, node: ast.AST) -> bool:
        """Whether a name is part of a type annotation, where every torch has it."""
        child = node
        for around in self.ancestors(node):
            if isinstance(around, (ast.AnnAssign, ast.arg)):
                return around.annotation is child
            if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return around.returns is child
            if isinstance(around, (ast.stmt, ast.Call)):
                return False
            child = around
        return False

    # --- text

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Start and end of a node in the text."""
        if node not in self._spans:
            self._spans[node] = self._place(node)
        return self._spans[node]

    def text(self, node: ast.AST) -> str:
        """A node's source text."""
        start, end = self.span(node)
        return self.source.text[start:end]

    def _place(self, node: ast.AST) -> tuple[int, int]:
        start = self.source.offset(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))
        end = self.source.offset(
            getattr(node, "end_lineno", 1) or 1, getattr(node, "end_col_offset", 0) or 0
        )
        if _EXACT_IN_F_STRINGS:
            return start, end
        holder = next((a for a in self.ancestors(node) if isinstance(a, ast.JoinedStr)), None)
        if holder is None or _same(self.source.text[start:end], node):
            return start, end
        return self._search(node, holder)

    def _search(self, node: ast.AST, holder: ast.JoinedStr) -> tuple[int, int]:
        low, high = self.span(holder)
        held = self.source.text[low:high]
        plain = ast.unparse(node)
        for spelling in (plain, plain.replace("'", '"')):
            if held.count(spelling) == 1:
                start = low + held.index(spelling)
                return start, start + len(spelling)
        raise Unplaced(self.path)

    def change(self, node: ast.AST, *pieces: Piece, needs: tuple[str, ...] = ()) -> Proposal:
        """Propose edits that belong to one node."""
        start, end = self.span(node)
        return Proposal(start, end, pieces, frozenset(needs))

    def replace(self, node: ast.AST, text: str, *needs: str) -> Proposal:
        """Propose a new text for a whole node."""
        start, end = self.span(node)
        return Proposal(start, end, (Piece(start, end, text),), frozenset(needs))

    def insert(self, offset: int, text: str) -> Piece:
        """A piece that only inserts."""
        return Piece(offset, offset, text)

    def remark(
        self,
        node: ast.AST,
        subject: str,
        why: Words,
        advice: Words,
        *,
        severity: Severity = Severity.LIMIT,
        effort: Effort = Effort.MINUTES,
        kind: Kind = Kind.DEVICE,
    ) -> Remark:
        """Report something about a node without changing it."""
        start, end = self.span(node)
        return Remark(start, end, severity, effort, kind, subject, why, advice)


def name_called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_of_a_program(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return not all(_is_for_settings(alias.name) for alias in statement.names)
    if isinstance(statement, ast.ImportFrom):
        return not (statement.level or _is_for_settings(statement.module or ""))
    return isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def _is_for_settings(module: str) -> bool:
    root = module.partition(".")[0]
    return root in sys.stdlib_module_names or root in _READ_SETTINGS


def _same(text: str, node: ast.AST) -> bool:
    try:
        parsed = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return False
    return ast.dump(parsed) == ast.dump(node)


def torch_uses(file: PythonFile) -> tuple[ApiUse, ...]:
    """Every torch name that the file uses, with its first line and count."""
    counts: dict[str, int] = {}
    lines: dict[str, int] = {}
    for name, line in _mentions(file):
        counts[name] = counts.get(name, 0) + 1
        lines.setdefault(name, line)
    return tuple(ApiUse(name, lines[name], counts[name]) for name in sorted(counts))


def _mentions(file: PythonFile) -> list[tuple[str, int]]:
    mentions: list[tuple[str, int]] = []
    parents = file.names.parents
    for node in file.names.found[ast.Attribute]:
        assert isinstance(node, ast.Attribute)
        if isinstance(parents.get(node), ast.Attribute):
            continue
        name = file.name(node)
        if name is not None and name.startswith("torch."):
            mentions.append((name, node.lineno))
    for node in file.names.found[ast.ImportFrom]:
        assert isinstance(node, ast.ImportFrom)
        if not node.level and (node.module or "").partition(".")[0] == "torch":
            mentions += [
                (f"{node.module}.{a.name}", node.lineno) for a in node.names if a.name != "*"
            ]
    return mentions


def top_packages(file: PythonFile) -> tuple[str, ...]:
    """The packages that the file imports, without the standard library."""
    tops: set[str] = set()
    for node in (*file.names.found[ast.Import], *file.names.found[ast.ImportFrom]):
        if isinstance(node, ast.Import):
            tops.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            tops.add(node.module.partition(".")[0])
    return tuple(sorted(tops - sys.stdlib_module_names - _FUTURE))
