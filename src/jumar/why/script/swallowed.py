"""Exceptions that the script catches without a word, and what is missing for it later."""

import ast
import re
from collections.abc import Iterator, Sequence

from jumar.why.script.own import Own, all_nodes, called, calls_in, own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import (
    chain_of,
    dotted,
    own_nodes,
    parents_of,
    scope_at,
    shown,
    statement_at,
)

CAUSES = frozenset(
    (
        *("none-value", "zero-division", "data-empty", "index-range", "numerical", "python-error"),
        *("single-value", "shape", "configuration", "library-use", "wrong-type", "not-there"),
        *("child-failed",),
    )
)
_IS_NONE = re.compile(r"'NoneType' object")
_IS_EMPTY = re.compile(
    r"division by zero|num_samples=0|empty|need at least one|expects? a non-empty|index out of range|out of range|at least one"
)
_FILLS = frozenset(("append", "extend", "add", "update", "setdefault", "put"))
_PRINTS = frozenset(("print", "warning", "warn", "info", "error", "debug", "exception", "write"))
_IMPORT_ERRORS = frozenset(("ImportError", "ModuleNotFoundError", "Exception", ""))


def look(fault: Fault, script: Script) -> Finding | None:
    """The handler that hid the first exception."""
    if script.failed is None:
        return _quiet_exit(fault, script)
    return _import_hidden(fault, script) or _list_left_empty(fault, script)


def _quiet_exit(fault: Fault, script: Script) -> Finding | None:
    """The only way out with an exit code is a handler that shows nothing of the exception."""
    if fault.cause not in ("child-failed", "nothing") or "Traceback" in fault.log:
        return None
    found = [
        (own, handler, call)
        for own in own_files(script)
        for handler in all_nodes(own.tree)
        if isinstance(handler, ast.ExceptHandler) and not _shows(handler)
        for call in calls_in(handler.body)
        if dotted(call.func) in ("sys.exit", "exit", "os._exit") and call.args
    ]
    if len(found) != 1 or not shown(found[0][2].args[0]).isdigit():
        return None
    own, handler, call = found[0]
    code = shown(call.args[0])
    if code == "0" or (fault.cause == "child-failed" and not fault.error.endswith(code)):
        return None
    where, there = script.place(own.file, handler), script.place(own.file, call)
    values = {"handler": where.text, "where": str(where), "exit": shown(call)}
    return Finding("exit-quiet", values, (where, there), "python-error")


def _shows(handler: ast.ExceptHandler) -> bool:
    """Whether anything of the exception comes out: below warnings, loggers mostly write nothing."""
    loud = (_PRINTS - {"debug", "info"}) | {"print_exc", "critical", "format_exc"}
    return any(called(call) in loud for call in calls_in(handler.body))


def _import_hidden(fault: Fault, script: Script) -> Finding | None:
    """`except ImportError: Name = None`, and that name is used."""
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    if failed is None or tree is None or not _IS_NONE.search(fault.error):
        return None
    statement = statement_at(tree, failed.line)
    used = _used(fault, statement)
    for own in own_files(script):
        for attempt in all_nodes(own.tree):
            if not isinstance(attempt, ast.Try) or not _imports(attempt.body):
                continue
            for handler in attempt.handlers:
                name = _set_to_none(handler) & used
                if name and _caught(handler) <= _IMPORT_ERRORS:
                    wanted = next(one for one in attempt.body if _is_import(one))
                    where = script.place(own.file, wanted)
                    values = {"name": min(name), "import": shown(wanted), "where": str(where)}
                    return Finding("import-caught", values, (where,), "module-missing")
    return None


def _used(fault: Fault, statement: ast.stmt | None) -> set[str]:
    """Names whose call or attribute fails if they are None."""
    is_called = "not callable" in fault.error
    found: set[str] = set()
    if statement is None:
        return found
    for node in ast.walk(statement):
        if is_called and isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
        elif not is_called and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {node.value.id} if f"'{node.attr}'" in fault.error else set()
    return found


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _imports(body: Sequence[ast.stmt]) -> bool:
    return any(_is_import(one) for one in body)


def _set_to_none(handler: ast.ExceptHandler) -> set[str]:
    return {
        target.id
        for one in handler.body
        if isinstance(one, ast.Assign)
        and isinstance(one.value, ast.Constant)
        and one.value.value is None
        for target in one.targets
        if isinstance(target, ast.Name)
    }


def _caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {""}
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {dotted(one) for one in kinds}


def _list_left_empty(fault: Fault, script: Script) -> Finding | None:
    """What is only filled inside a `try` whose exceptions are only printed or passed by, and is empty at the end."""
    if not _IS_EMPTY.search(fault.error):
        return None
    found = [
        (own, attempt, name)
        for own in own_files(script)
        for attempt in all_nodes(own.tree)
        if isinstance(attempt, ast.Try)
        for name in _filled(attempt)
        if _is_in_loop(own, attempt)
        and any(_is_quiet(one) for one in attempt.handlers)
        and _is_all_of(own, attempt, name)
    ]
    if len({id(attempt) for _, attempt, _ in found}) != 1:
        return None
    own, attempt, name = found[0]
    if not _leads_to(script, own, attempt, name):
        return None
    handler = next(one for one in attempt.handlers if _is_quiet(one))
    first, second = script.place(own.file, attempt), script.place(own.file, handler)
    values = {"name": name, "where": str(first), "handler": second.text, "there": str(second)}
    said = _said(handler, fault.log)
    if said:
        return Finding("caught-printed", {**values, "said": said}, (first, second), "data-broken")
    return Finding("caught-silently", values, (first, second), "data-empty")


def _filled(attempt: ast.Try) -> Iterator[str]:
    for call in calls_in(attempt.body):
        base = dotted(call.func).rpartition(".")[0]
        if called(call) in _FILLS and base:
            yield base


def _is_in_loop(own: Own, attempt: ast.Try) -> bool:
    return any(
        isinstance(one, ast.For | ast.While) for one in chain_of(attempt, parents_of(own.tree))
    )


def _is_quiet(handler: ast.ExceptHandler) -> bool:
    """Whether it goes on as if nothing had been: it prints, passes, goes to the next."""
    if not _caught(handler) & {
        "",
        "Exception",
        "BaseException",
        "KeyError",
        "ValueError",
        "OSError",
        "IOError",
        "TypeError",
    }:
        return False
    return all(
        isinstance(one, (ast.Pass | ast.Continue, ast.AugAssign))
        or (
            isinstance(one, ast.Expr)
            and isinstance(one.value, ast.Call)
            and called(one.value) in _PRINTS
        )
        for one in handler.body
    )


def _is_all_of(own: Own, attempt: ast.Try, name: str) -> bool:
    """Whether nothing else fills it."""
    inside = {id(call) for call in calls_in([attempt])}
    others = [
        call
        for call in calls_in([scope_at(own.tree, attempt.lineno)])
        if id(call) not in inside
        and called(call) in _FILLS
        and dotted(call.func).rpartition(".")[0] == name
    ]
    return not others


def _leads_to(script: Script, own: Own, attempt: ast.Try, name: str) -> bool:
    """Whether what failed is about that name, or about what the function that fills it returns."""
    texts = " ".join(call.source for call in script.calls)
    if re.search(rf"\b{re.escape(name.rpartition('.')[2])}\b", texts):
        return True
    scope = scope_at(own.tree, attempt.lineno)
    returns = [node for node in own_nodes(scope) if isinstance(node, ast.Return) and node.value]
    is_returned = any(dotted(node.value) == name for node in returns if node.value is not None)
    return is_returned and bool(re.search(rf"\b{getattr(scope, 'name', '-')}\(", texts))


def _said(handler: ast.ExceptHandler, log: str) -> str:
    """The last line of the log that the handler's print has written."""
    for call in calls_in(handler.body):
        first = call.args[0] if called(call) in _PRINTS and call.args else None
        if isinstance(first, ast.JoinedStr) and first.values:
            first = first.values[0]
        start = first.value if isinstance(first, ast.Constant) else None
        if isinstance(start, str) and len(start.strip()) > 2:
            lines = [
                one.strip()
                for one in log.splitlines()
                if start.split("{")[0].split("%")[0].strip() in one
            ]
            lines = [one for one in lines if not one.startswith(("print", "log"))]
            if lines:
                return lines[-1][:160]
    return ""
