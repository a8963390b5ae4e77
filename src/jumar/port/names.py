"""What a name refers to: imports, aliases and assignments, scope by scope.

One walk over the tree records every binding, every parent and the nodes that rules ask for. Nothing
is executed; a name that cannot be resolved is None, and rules leave it alone."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from jumar.port.npu_api import SAME_NAME, TENSOR_TYPES

Bound = str | ast.AST | None
"""An imported dotted name, an assigned expression, a definition or parameter, or unknown."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_PLAIN_FIELDS = frozenset(
    [
        "arg",
        "asname",
        "attr",
        "conversion",
        "ctx",
        "id",
        "is_async",
        "kind",
        "level",
        "module",
        "op",
        "ops",
        "simple",
        "tag",
        "type_comment",
        "type_ignores",
    ]
)
"""Fields of nodes that never hold a node that rules look for."""
_LEAVES = frozenset({str, type(None)})
"""What the other fields may hold besides nodes."""
MAX_HOPS = 20
_AMP = frozenset({"autocast", "custom_bwd", "custom_fwd", "GradScaler"})
OFFERED = {"torch.cuda": SAME_NAME | TENSOR_TYPES, "torch.cuda.amp": _AMP, "torch.amp": _AMP}
"""What a star import of torch's modules provides."""


@dataclass(slots=True, eq=False)
class Scope:
    """The names of a module, class, function or comprehension."""

    node: ast.AST
    parent: "Scope | None"
    names: dict[str, list[Bound]] = field(default_factory=dict[str, list[Bound]])
    outer: set[str] = field(default_factory=set[str])
    """Names declared `global` or `nonlocal` here."""

    def bind(self, name: str, value: Bound) -> None:
        """Record one more binding of a name."""
        home: Scope = self
        if name in self.outer:
            while home.parent is not None:
                home = home.parent
        home.names.setdefault(name, []).append(value)

    def find(self, name: str) -> "Scope | None":
        """The scope that holds a name, as Python looks it up; class bodies are not enclosing."""
        scope: Scope | None = self
        while scope is not None:
            hidden = scope is not self and isinstance(scope.node, ast.ClassDef)
            if name in scope.names and not hidden:
                return scope
            scope = scope.parent
        return None


@dataclass(slots=True, eq=False)
class Names:
    """The bindings of one module, and queries on them."""

    module: Scope
    package: str
    """Dotted package that relative imports start from; empty if unknown."""
    scopes: dict[ast.AST, Scope]
    parents: dict[ast.AST, ast.AST]
    found: dict[type[ast.AST], list[ast.AST]]
    stars: list[str]
    imports: list[str] = field(default_factory=list[str], init=False)
    """The dotted names that imports bind, in any scope."""
    external: Callable[[str], str | None] = lambda dotted: dotted
    """Follows a dotted name of the repository to what it re-exports."""
    leading: frozenset[str] = frozenset()
    """Names that may refer to something imported, here or through an alias."""
    _memo: dict[tuple[int, str], str | None] = field(
        default_factory=dict[tuple[int, str], "str | None"]
    )
    _known: dict[str, bool] = field(default_factory=dict[str, bool])

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which a node is evaluated."""
        current: ast.AST | None = node
        while current is not None:
            scope = self.scopes.get(current)
            if scope is not None:
                return scope
            current = self.parents.get(current)
        return self.module

    def qualified(self, node: ast.AST, scope: Scope | None = None, hops: int = 0) -> str | None:
        """The dotted name that an expression refers to, such as `torch.cuda.amp`."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or hops > MAX_HOPS or not self.may_lead(node.id):
            return None
        base = self.of_name(node.id, scope or self.scope_of(node), hops)
        if base is None:
            return None
        if not attributes:
            return base
        return self.external(".".join([base, *reversed(attributes)]))

    def may_lead(self, name: str) -> bool:
        """Whether a name can refer to something imported at all; most cannot."""
        return name in self.leading or bool(self.stars) or name == "torch"

    def leading_nodes(self, kind: type[ast.AST]) -> list[ast.AST]:
        """The names or attributes that can refer to something imported."""
        nodes = self.found.get(kind, [])
        if self.stars:
            return nodes
        leading = self.leading | {"torch"}
        return [node for node in nodes if _root(node) in leading]

    def of_name(self, name: str, scope: Scope, hops: int = 0) -> str | None:
        """The dotted name that a plain name refers to in a scope."""
        home = scope.find(name)
        if home is None:
            # A snippet may omit the import or use a star import; nothing else has this name.
            return "torch" if name == "torch" else self._from_stars(name)
        key = id(home), name
        if key not in self._memo:
            # A name assigned from itself must not be followed forever.
            self._memo[key] = None
            self._memo[key] = self._meaning(home, name, hops)
        return self._memo[key]

    def _meaning(self, home: Scope, name: str, hops: int) -> str | None:
        meanings: list[str] = []
        for value in home.names[name]:
            if isinstance(value, str):
                dotted = self.external(value)
            elif isinstance(value, (ast.Name, ast.Attribute)):
                dotted = self.qualified(value, home, hops + 1)
            else:
                dotted = None
            if dotted is not None and dotted not in meanings:
                meanings.append(dotted)
        # `try: from torch… except: …` gives several; the one from torch counts.
        return next((m for m in meanings if m.partition(".")[0] == "torch"), None) or (
            meanings[0] if meanings else None
        )

    def _from_stars(self, name: str) -> str | None:
        for module in self.stars:
            if name in OFFERED.get(module, ()):
                return f"{module}.{name}"
            dotted = self.external(f"{module}.{name}")
            if dotted is not None and dotted != f"{module}.{name}":
                return dotted
        return None

    def knows(self, package: str) -> bool:
        """Whether anything in the module refers to a package or a part of it."""
        known = self._known.get(package)
        if known is None:
            known = self._known[package] = any(
                value == package or value.startswith(f"{package}.") for value in self.imported()
            ) or any(self.external(f"{module}.{package}") == package for module in self.stars)
        return known

    def imported(self) -> list[str]:
        """The dotted names that are imported anywhere in the module."""
        return [*self.stars, *self.imports]

    def values(self, name: str, scope: Scope) -> list[Bound]:
        """Everything that a name was ever bound to in the scope that holds it."""
        home = scope.find(name)
        return home.names[name] if home is not None else []


def _root(node: ast.AST) -> str:
    """The name that a chain of attributes starts with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of each kind of node that may hold other nodes, in the order of the text."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        self[kind] = tuple(name for name in kind._fields if name not in _PLAIN_FIELDS)
        return self[kind]


_FIELDS = _Fields({ast.Constant: (), ast.Global: (), ast.Nonlocal: ()})


def collect(tree: ast.Module, package: str, wanted: frozenset[type[ast.AST]]) -> Names:
    """Walk a module once and record its bindings, parents and wanted nodes."""
    module = Scope(tree, None)
    names = Names(module, package, {tree: module}, {}, {kind: [] for kind in wanted}, [])
    parents, scopes, found = names.parents, names.scopes, names.found
    handled: set[ast.AST] = set()
    stack: list[tuple[ast.AST, Scope]] = [(tree, module)]
    while stack:
        node, scope = stack.pop()
        kind = node.__class__
        if kind in found:
            found[kind].append(node)
        fields = _FIELDS[kind]
        if not fields:
            # Half of all nodes: names, and constants.
            if kind is ast.Name:
                _name(node, scope, handled)
            continue
        binder = _BINDERS.get(kind)
        inner = binder(node, scope, names, handled) if binder is not None else scope
        outside = _evaluated_outside(node) if inner is not scope else ()
        for field_name in fields:
            value = getattr(node, field_name)
            for child in value if value.__class__ is list else (value,):
                if child.__class__ in _LEAVES:
                    continue
                parents[child] = node
                if child in outside:
                    scopes[child] = scope
                    stack.append((child, scope))
                else:
                    stack.append((child, inner))
    _finish(names)
    return names


def _finish(names: Names) -> None:
    # The stack returns the last first; readers expect the order of the text.
    for nodes in names.found.values():
        nodes.reverse()
    leading: set[str] = set()
    for scope in {id(s): s for s in names.scopes.values()}.values():
        for name, bound in scope.names.items():
            bound.reverse()
            if any(isinstance(value, (str, ast.Name, ast.Attribute)) for value in bound):
                leading.add(name)
    names.leading = frozenset(leading)


def _evaluated_outside(node: ast.AST) -> tuple[ast.AST, ...]:
    """Children of a definition that belong to the scope around it."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return (*node.decorator_list, *((node.returns,) if node.returns else ()))
    if isinstance(node, ast.ClassDef):
        return (*node.decorator_list, *node.bases, *node.keywords)
    return ()


def _open(node: ast.AST, scope: Scope, names: Names) -> Scope:
    inner = Scope(node, scope)
    names.scopes[node] = inner
    return inner


def _function(node: ast.AST, scope: Scope, names: Names, handled: set[ast.AST]) -> Scope:
    assert isinstance(node, FunctionNode)
    inner = _open(node, scope, names)
    if not isinstance(node, ast.Lambda):
        scope.bind(node.name, node)
        inner.outer = _declared_outer(node)
    arguments = node.args
    for argument in (
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        *(a for a in (arguments.vararg, arguments.kwarg) if a is not None),
    ):
        inner.bind(argument.arg, argument)
    return inner


def _declared_outer(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    outer: set[str] = set()
    for statement in node.body:
        if isinstance(statement, (ast.Global, ast.Nonlocal)):
            outer.update(statement.names)
    return outer


def _class(node: ast.AST, scope: Scope, names: Names, handled: set[ast.AST]) -> Scope:
    assert isinstance(node, ast.ClassDef)
    scope.bind(node.name, node)
    return _open(node, scope, names)


def _comprehension(node: ast.AST, scope: Scope, names: Names, handled: set[ast.AST]) -> Scope:
    return _open(node, scope, names)


def _import(node: ast.AST, scope: Scope, names: Names, handled: set[ast.AST]) -> Scope:
    assert isinstance(node, ast.Import)
    for alias in node.names:
        dotted = alias.name if alias.asname else alias.name.partition(".")[0]
        scope.bind(alias.asname or dotted, dotted)
        names.imports.append(dotted)
    return scope


def _import_from(node: ast.AST, scope: Scope, names: Names, handled: set[ast.AST]) -> Scope:
    assert isinstance(node, ast.ImportFrom)
    base = import_base(node, names.package)
    for alias in node.names:
        if alias.name == "*":
            names.stars.append(base)
        else:
            scope.bind(alias.asname or alias.name, f"{base}.{alias.name}")
            names.imports.append(f"{base}.{alias.name}")
    return scope


def import_base(node: ast.ImportFrom, package: str) -> str:
    """The absolute module that a `from … import` names."""
    if not node.level:
        return node.module or ""
    parts = package.split(".") if package else []
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _assign(node: ast.AST, scope: Scope, names: Names, handled: set[ast.AST]) -> Scope:
    assert isinstance(node, ast.Assign)
    for target in node.targets:
        _assign_to(target, node.value, scope, handled)
    return scope


def _assign_to(target: ast.expr, value: ast.expr, scope: Scope, handled: set[ast.AST]) -> None:
    if isinstance(target, ast.Name):
        handled.add(target)
        scope.bind(target.id, value)
    elif (
        isinstance(target, ast.Tuple)
        and isinstance(value, ast.Tuple)
        and len(target.elts) == len(value.elts)
    ):
        for one, its in zip(target.elts, value.elts, strict=True):
            _assign_to(one, its, scope, handled)


def _annotated(node: ast.AST, scope: Scope, names: Names, handled: set[ast.AST]) -> Scope:
    assert isinstance(node, ast.AnnAssign)
    if isinstance(node.target, ast.Name) and node.value is not None:
        _assign_to(node.target, node.value, scope, handled)
    return scope


def _name(node: ast.AST, scope: Scope, handled: set[ast.AST]) -> None:
    assert isinstance(node, ast.Name)
    if isinstance(node.ctx, ast.Store) and node not in handled:
        scope.bind(node.id, None)


def _handler(node: ast.AST, scope: Scope, names: Names, handled: set[ast.AST]) -> Scope:
    assert isinstance(node, ast.ExceptHandler)
    if node.name:
        scope.bind(node.name, None)
    return scope


_Binder = Callable[[ast.AST, Scope, Names, set[ast.AST]], Scope]
_BINDERS: dict[type[ast.AST], _Binder] = {
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _function,
    ast.ClassDef: _class,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.ExceptHandler: _handler,
    **dict.fromkeys(_COMPREHENSIONS, _comprehension),
}
