"""What a script keeps in memory from step to step: graphs, outputs, batches."""

import ast
from collections.abc import Iterator

from jumar.why.script.origin import LOOPS, Made, origins
from jumar.why.script.own import own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, Scope, dotted, own_nodes, shown

CAUSES = frozenset(("host-allocation", "host-memory", "device-memory", "killed", "torch-memory"))
_CUT = frozenset(("item", "detach", "cpu", "tolist", "numpy", "float"))
_OFF = ("no_grad", "inference_mode", "set_grad_enabled")


def look(fault: Fault, script: Script) -> Finding | None:
    """What grows with each round of a loop."""
    for file, tree in own_files(script):
        scopes: list[Scope] = [tree, *(one for one in ast.walk(tree) if isinstance(one, Function))]
        for scope in scopes:
            told = _cycle(script, file, scope) or _sums(script, file, scope)
            told = told or _evaluates(script, file, scope)
            if told is not None:
                return told
    return None


def _calls(scope: ast.AST) -> Iterator[ast.Call]:
    return (node for node in own_nodes(scope) if isinstance(node, ast.Call))


def _cycle(script: Script, file: str, scope: Scope) -> Finding | None:
    """itertools.cycle() keeps every batch."""
    for call in _calls(scope):
        if dotted(call.func) not in ("cycle", "itertools.cycle") or len(call.args) != 1:
            continue
        *_, at = origins(script, Made(file, call.args[0], None, call.lineno))
        if isinstance(at.node, ast.Call) and dotted(at.node.func).endswith("DataLoader"):
            place = script.place(file, call)
            return Finding("cycle-keeps", {"code": shown(call), "where": str(place)}, (place,))
    return None


def _sums(script: Script, file: str, scope: Scope) -> Finding | None:
    """`total += loss` in the loop that calls loss.backward()."""
    for loop in own_nodes(scope):
        if not isinstance(loop, LOOPS):
            continue
        inside = [node for statement in loop.body for node in ast.walk(statement)]
        trained = {
            dotted(one.func.value)
            for one in inside
            if isinstance(one, ast.Call)
            and isinstance(one.func, ast.Attribute)
            and one.func.attr == "backward"
        }
        for node in inside:
            kept = _kept(node)
            if kept is None or dotted(kept) not in trained or not dotted(kept):
                continue
            place = script.place(file, node)
            values = {"code": shown(node), "loss": dotted(kept), "where": str(place)}
            return Finding("loss-kept", values, (place,))
    return None


def _kept(node: ast.AST) -> ast.expr | None:
    """What a statement adds to a sum or a list as it is."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return node.value
    is_append = (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "append"
        and len(node.args) == 1
    )
    return node.args[0] if is_append and isinstance(node, ast.Call) else None


def _evaluates(script: Script, file: str, scope: Scope) -> Finding | None:
    """A function that calls eval() and runs the model with gradients, and keeps what it gave."""
    if not isinstance(scope, Function) or any(word in (script.text(file) or "") for word in _OFF):
        return None
    models = {
        dotted(one.func.value)
        for one in _calls(scope)
        if isinstance(one.func, ast.Attribute) and one.func.attr == "eval" and not one.args
    } - {""}
    for loop in own_nodes(scope):
        if not isinstance(loop, LOOPS):
            continue
        inside = [node for statement in loop.body for node in ast.walk(statement)]
        calls = [one for one in inside if isinstance(one, ast.Call)]
        has_backward = any(getattr(one.func, "attr", "") == "backward" for one in calls)
        runs = [one for one in calls if dotted(one.func) in models]
        kept = [node for node in inside if _is_whole(_kept(node))]
        if runs and kept and not has_backward:
            places = (script.place(file, runs[0]), script.place(file, kept[0]))
            values = {"function": scope.name, "model": dotted(runs[0].func), "code": shown(kept[0])}
            return Finding("evaluated-with-graph", {**values, "where": str(places[1])}, places)
    return None


def _is_whole(node: ast.expr | None) -> bool:
    """Whether it is a tensor as it came, not a number or a copy."""
    if node is None or isinstance(node, ast.Constant):
        return False
    return not any(
        isinstance(one, ast.Call)
        and getattr(one.func, "attr", dotted(one.func)) in (*_CUT, "len", "size")
        for one in ast.walk(node)
    )
