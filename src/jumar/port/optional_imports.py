"""Imports that may fail in a script: whether it checks for the package, and whether it runs without.

A script that catches the error runs without the package only if it then has another way: the handler
binds the names or a flag, leaves the function, or nothing outside uses them. A name that becomes None
and is called all the same is no other way, and neither is a flag that is asserted. Where only a class
named for the package, or one that asserts it, does so, the script runs as long as nobody uses that one."""

import ast
from collections.abc import Iterable, Iterator

from jumar.port.context import PythonFile
from jumar.port.packages import imported
from jumar.port.patterns import lazy_pattern

_ASKS_FOR_PACKAGE = lazy_pattern(
    r"^(?!not\b).*(?:is_(?!cuda|gpu)[a-z0-9_]+_available|find_spec|[A-Z0-9]_AVAILABLE\b"
    r"|(?<![\w.])_?(?!cuda|gpu|npu)[a-z][a-z0-9_]*_(?:is_)?installed\b(?!\()"
    r"|(?<![\w.])_?(?!cuda|gpu|npu|is_)[a-z][a-z0-9_]*_available\b(?!\())"
)
_FORGIVEN = frozenset(
    {
        "ImportError",
        "ModuleNotFoundError",
        "PackageNotFoundError",
        "Exception",
        "BaseException",
        "OSError",
    }
)
_BINDS = (
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.ClassDef,
    ast.Return,
    ast.Continue,
)


def is_guarded(node: ast.AST, file: PythonFile) -> bool:
    """Whether the script checks for a package or catches the error, and goes on."""
    guard = _guard(node, file)
    return isinstance(guard, ast.If) or (guard is not None and not _gives_up(guard[1]))


def runs_without(node: ast.AST, file: PythonFile) -> bool:
    """Whether the script also works if an import fails."""
    guard = _guard(node, file)
    if guard is None or isinstance(guard, ast.If):
        return guard is not None
    attempt, handler = guard
    if _gives_up(handler) or _fails_later(node, attempt, handler, file):
        return False
    return _has_another_way(attempt, handler) or not _used_outside(node, attempt, file)


def _guard(
    node: ast.AST, file: PythonFile, also: tuple[str, ...] = ()
) -> ast.If | tuple[ast.Try, ast.ExceptHandler] | None:
    """The check for the package, or the handler that catches its absence."""
    child = node
    for ancestor in file.ancestors(node):
        if isinstance(ancestor, ast.Try) and child in ancestor.body:
            for handler in ancestor.handlers:
                caught = ast.unparse(handler.type) if handler.type is not None else "Exception"
                if any(name in caught for name in (*_FORGIVEN, *also)):
                    return ancestor, handler
        if isinstance(ancestor, ast.If) and child in ancestor.body and _asks(ancestor.test):
            return ancestor
        child = ancestor
    return None


def is_attempted(call: ast.AST, file: PythonFile, also: tuple[str, ...] = ()) -> bool:
    """Whether a call that needs a package is tried, and the script goes on without it."""
    guard = _guard(call, file, also)
    return isinstance(guard, tuple) and not _gives_up(guard[1])


def _asks(test: ast.expr) -> bool:
    return _ASKS_FOR_PACKAGE.match(ast.unparse(test)) is not None


def _gives_up(handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends the script, possibly with a better message."""
    last = handler.body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return ast.unparse(last.value.func) in ("exit", "quit", "sys.exit", "os._exit")
    return isinstance(last, ast.Raise)


def _has_another_way(attempt: ast.Try, handler: ast.ExceptHandler) -> bool:
    """Whether the script can tell later that the package is missing, or has something else."""
    flags = (s for s in (*attempt.body, *attempt.orelse) if isinstance(s, ast.Assign))
    return _any_binds(handler.body) or any(flags)


def _fails_later(
    node: ast.AST, attempt: ast.Try, handler: ast.ExceptHandler, file: PythonFile
) -> bool:
    """Whether the script goes on without the package, only to fail where it is needed."""
    flags = _set_to(attempt.body, True) | _set_to(attempt.orelse, True)
    if any(
        isinstance(n, ast.Assert)
        and isinstance(n.test, ast.Name)
        and n.test.id in flags
        and not is_for_some_versions(n, file)
        for n in file.names.found[ast.Assert]
    ):
        return True
    about = _about(node)
    return any(
        not _is_named_for(call, about, file)
        and not _asserts_above(call, file)
        and not _is_chosen(call, call.func.id, about, file)
        for call in _calls_of_missing(node, handler, file)
        if isinstance(call.func, ast.Name)
    )


def needed_by(node: ast.AST, file: PythonFile) -> tuple[str, ...]:
    """The classes and functions that fail without a package that the script runs without."""
    guard = _guard(node, file)
    if guard is None or isinstance(guard, ast.If):
        return ()
    about = _about(node)
    found = (
        file.enclosing_class(call) or file.enclosing_function(call)
        for call in _calls_of_missing(node, guard[1], file)
        if isinstance(call.func, ast.Name) and not _is_chosen(call, call.func.id, about, file)
    )
    return tuple(dict.fromkeys(owner.name for owner in found if owner is not None))


def _about(node: ast.AST) -> str:
    """The first word of the package, by which its classes and settings are called."""
    return (imported(node) or [""])[0].partition("_")[0]


def _calls_of_missing(
    node: ast.AST, handler: ast.ExceptHandler, file: PythonFile
) -> Iterator[ast.Call]:
    """Calls of names that are None without the package."""
    assert isinstance(node, (ast.Import, ast.ImportFrom))
    missing = _bound_by(node) & _set_to(handler.body, None)
    for call in file.names.found.get(ast.Call, ()) if missing else ():
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in missing:
            yield call


def is_for_some_versions(node: ast.AST, file: PythonFile) -> bool:
    """Whether this only happens with some versions: `if version.parse(torch.__version__) < …`."""
    return any(
        isinstance(around, ast.If) and "version" in ast.unparse(around.test)
        for around in file.ancestors(node)
    )


def _set_to(body: Iterable[ast.stmt], value: object) -> set[str]:
    """The names that statements set to a constant: `f = None`, `f, g = None, None`."""
    return {
        name.id
        for statement in body
        if isinstance(statement, ast.Assign)
        and all(
            isinstance(part, ast.Constant) and part.value is value
            for part in getattr(statement.value, "elts", [statement.value])
        )
        for target in statement.targets
        for name in getattr(target, "elts", [target])
        if isinstance(name, ast.Name)
    }


def _is_chosen(use: ast.AST, name: str, about: str, file: PythonFile) -> bool:
    """Whether a use is one of several ways, or its function checks for the name first."""
    function = file.enclosing_function(use)
    around = [*file.ancestors(use), *(ast.walk(function) if function is not None else ())]
    if any(_asks_for(name, one) for one in around):
        return True
    return any(
        isinstance(one, (ast.If, ast.IfExp)) and about in ast.unparse(one.test).lower()
        for one in file.ancestors(use)
    )


def _is_named_for(use: ast.AST, about: str, file: PythonFile) -> bool:
    """Whether the class around a use says by its name that it is the way with the package."""
    owner = file.enclosing_class(use)
    return owner is not None and about in owner.name.lower()


def _asserts_above(call: ast.Call, file: PythonFile) -> bool:
    """Whether the function of a call asserts what it calls."""
    function, name = file.enclosing_function(call), getattr(call.func, "id", "")
    return function is not None and any(
        isinstance(one, ast.Assert)
        and any(getattr(n, "id", "") == name for n in ast.walk(one.test))
        for one in ast.walk(function)
    )


def _bound_by(node: ast.Import | ast.ImportFrom) -> set[str]:
    return {alias.asname or alias.name.partition(".")[0] for alias in node.names}


def _any_binds(body: Iterable[ast.stmt]) -> bool:
    return any(isinstance(n, _BINDS) for statement in body for n in ast.walk(statement))


def _used_outside(node: ast.AST, attempt: ast.Try, file: PythonFile) -> bool:
    """Whether the imported names are used after the attempt, without a check for them."""
    assert isinstance(node, (ast.Import, ast.ImportFrom))
    bound = _bound_by(node)
    for use in file.names.found[ast.Name]:
        if not isinstance(use, ast.Name) or use.id not in bound:
            continue
        around = list(file.ancestors(use))
        if attempt not in around and not any(_asks_for(use.id, a) for a in around):
            return True
    return False


def _asks_for(name: str, around: ast.AST) -> bool:
    return isinstance(around, (ast.If, ast.IfExp)) and any(
        getattr(n, "id", getattr(n, "value", None)) == name for n in ast.walk(around.test)
    )
