"""Iterators that are read a second time, when nothing is left in them, and loaders that give no batch."""

import ast
import re

from jumar.why.script.defined import function_called, is_true
from jumar.why.script.origin import LOOPS, Made, failed_statement, origins, parts_of
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import (
    Scope,
    argument,
    chain_of,
    dotted,
    own_nodes,
    parents_of,
    scope_at,
    shown,
)

CAUSES = frozenset(
    (
        *("zero-division", "configuration", "name-missing", "data-empty", "python-error", "shape"),
        *("index-range", "checked", "library-use", "wrong-type", "none-value"),
    )
)
_ONCE = frozenset(("zip", "map", "filter", "iter", "reversed", "enumerate"))
_ONCE_LAST = frozenset(
    ("parameters", "named_parameters", "iterrows", "itertuples", "reader", "DictReader", "finditer")
)
_EMPTY = re.compile(
    r"ZeroDivisionError|empty parameter list|StopIteration|UnboundLocalError|is not defined|empty|zero|expected a non-empty|at least one"
)


def look(fault: Fault, script: Script) -> Finding | None:
    """What is read at the line that failed, or in a loop before it in the same function."""
    found = failed_statement(script)
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    if found is None or failed is None or tree is None or not _EMPTY.search(fault.error):
        return None
    scope = scope_at(tree, failed.line)
    parents = parents_of(scope)
    return (
        _read_before(script, scope, found[1], found[0])
        or _read_in_each_round(script, scope, parents, found[0])
        or _no_batch(script, scope, found[1], found[0])
    )


def _once(script: Script, at: Made) -> bool:
    node = at.node
    if isinstance(node, ast.GeneratorExp):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = dotted(node.func)
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr in _ONCE_LAST
    if name in _ONCE or is_method:
        return True
    found = function_called(script, at.file, node)
    return found is not None and any(isinstance(one, ast.Yield) for one in own_nodes(found[1]))


def _read_before(script: Script, scope: Scope, statement: ast.stmt, frame: int) -> Finding | None:
    """`optimizer = SGD(params)` below `sum(p.numel() for p in params)`."""
    call = script.calls[frame]
    for node in parts_of(statement):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        *_, at = origins(script, Made(call.file, node, frame, call.line))
        if at.node is node or not _once(script, at) or at.file != call.file:
            continue
        before = [
            one
            for one in own_nodes(scope)
            if isinstance(one, ast.Name)
            and one.id == node.id
            and isinstance(one.ctx, ast.Load)
            and at.line < one.lineno < statement.lineno
        ]
        if before:
            first = min(before, key=lambda one: one.lineno)
            places = (script.place(at.file, at.line), script.place(call.file, first))
            values = {"name": node.id, "code": shown(at.node), "made": str(places[0])}
            return Finding("used-up-before", {**values, "where": str(places[1])}, places)
    return None


def _read_in_each_round(
    script: Script, scope: Scope, parents: dict[ast.AST, ast.AST], frame: int
) -> Finding | None:
    """`for s in pairs:` inside of `for epoch in …:`, where pairs was made before."""
    call = script.calls[frame]
    for loop in own_nodes(scope):
        if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Name):
            continue
        around = [one for one in chain_of(loop, parents) if isinstance(one, LOOPS)]
        has_fault = around and around[0].lineno <= call.line <= (around[0].end_lineno or 0)
        if not has_fault:
            continue
        *steps, at = origins(script, Made(call.file, loop.iter, frame, loop.lineno))
        made = [one.line for one in (*steps, at) if one.file == call.file][1:2]
        is_outside = not made or not around[0].lineno <= made[0] <= (around[0].end_lineno or 0)
        if at.node is not loop.iter and _once(script, at) and is_outside:
            places = (script.place(at.file, at.node), script.place(call.file, loop))
            values = {"name": loop.iter.id, "code": shown(at.node), "made": str(places[0])}
            return Finding("used-up-in-loop", {**values, "where": str(places[1])}, places)
    return None


def _no_batch(script: Script, scope: Scope, statement: ast.stmt, frame: int) -> Finding | None:
    """A loop over a loader that drops its only batch, or a division by its length."""
    call = script.calls[frame]
    read: list[ast.expr] = [
        one.iter
        for one in own_nodes(scope)
        if isinstance(one, ast.For) and (one.end_lineno or 0) < call.line
    ]
    read += [
        one.args[0]
        for one in parts_of(statement)
        if isinstance(one, ast.Call) and dotted(one.func) == "len" and one.args
    ]
    for node in read:
        inner = node
        while (
            isinstance(inner, ast.Call)
            and dotted(inner.func) in ("tqdm", "enumerate")
            and inner.args
        ):
            inner = inner.args[0]
        *_, at = origins(script, Made(call.file, inner, frame, node.lineno))
        loader = at.node if isinstance(at.node, ast.Call) else None
        if loader is None or not dotted(loader.func).endswith("DataLoader"):
            continue
        if is_true(argument(loader, "drop_last")):
            place = script.place(at.file, loader)
            size = argument(loader, "batch_size", 1)
            values = {
                "name": shown(inner),
                "where": str(place),
                "size": shown(size) if size else "1",
            }
            return Finding("no-batch", values, (place,))
    return None
