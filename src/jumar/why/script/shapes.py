"""Shapes that the script itself makes wrong: a return inside of a loop, a fixed batch size, the classes of one batch, windows."""

import ast
import re
from collections.abc import Iterator

from jumar.why.script.defined import class_named, function_called, is_true, method_of
from jumar.why.script.origin import failed_statement, parts_of
from jumar.why.script.own import own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, argument, class_at, dotted, own_nodes, scope_at, shown

CAUSES = frozenset(("shape", "data-pipeline", "index-range", "library-use", "collective-argument"))
_DIFFER = re.compile(
    r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)|shapes? .*not|broadcast"
)
_SIZES = re.compile(
    r"Expected (?:hidden )?size (\d+) but got size (\d+)|Expected hidden(?:\[0\])? size \(\d+, (\d+), \d+\), got \[?\(?\d+, (\d+)"
)
_FILLS = frozenset(("zeros", "ones", "randn", "rand", "empty", "full"))
_BATCH = re.compile(r"^(?:.*\.)?(?:batch_?size|bs|bsz|n_?batch|batch)$", re.IGNORECASE)
_STACKED = "stack expects each tensor to be equal size"


def look(fault: Fault, script: Script) -> Finding | None:
    """The line that makes them so."""
    return (
        _first_layer_only(script)
        or _classes_of_batch(fault, script)
        or _fixed_batch(fault, script)
        or _windows(fault, script)
    )


def _own_functions(script: Script) -> Iterator[tuple[str, Function]]:
    """Those of the classes and files that the stack goes through."""
    for file in dict.fromkeys(call.file for call in reversed(script.calls)):
        tree = script.tree(file)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, Function):
                yield file, node


def _first_layer_only(script: Script) -> Finding | None:
    """`for layer in self.layers: x = layer(x)` with the return inside."""
    for file, function in _own_functions(script):
        for loop in own_nodes(function):
            if not isinstance(loop, ast.For) or len(loop.body) < 2:
                continue
            last = loop.body[-1]
            name = dotted(last.value) if isinstance(last, ast.Return) and last.value else ""
            changed = [
                one
                for one in loop.body[:-1]
                if isinstance(one, ast.Assign)
                and dotted(one.targets[0]) == name
                and any(
                    isinstance(each, ast.Name) and each.id == name for each in ast.walk(one.value)
                )
            ]
            if name and changed:
                place = script.place(file, last)
                values = {"function": function.name, "where": str(place)}
                loop_place = script.place(file, loop)
                values |= {"name": name, "loop": loop_place.text}
                return Finding("return-in-loop", values, (loop_place, place))
    return None


def _classes_of_batch(fault: Fault, script: Script) -> Finding | None:
    """`F.one_hot(y)` without num_classes."""
    if _DIFFER.search(fault.error) is None:
        return None
    found = failed_statement(script)
    if found is None or script.failed is None:
        return None
    tree = script.tree(script.failed.file)
    holders: list[tuple[str, ast.AST]] = [(script.failed.file, found[1])]
    if tree is not None:
        holders.append((script.failed.file, scope_at(tree, script.failed.line)))
    for call in parts_of(found[1]):
        called = (
            function_called(script, script.failed.file, call)
            if isinstance(call, ast.Call)
            else None
        )
        if called is not None:
            holders.append(called)
    for file, holder in holders:
        for node in own_nodes(holder):
            is_one_hot = isinstance(node, ast.Call) and dotted(node.func).endswith("one_hot")
            if (
                is_one_hot
                and isinstance(node, ast.Call)
                and argument(node, "num_classes", 1) is None
            ):
                place = script.place(file, node)
                values = {"code": shown(node), "where": str(place)}
                return Finding("classes-of-batch", values, (place,))
    return None


def _fixed_batch(fault: Fault, script: Script) -> Finding | None:
    """`h = torch.zeros(self.batch_size, …)` with a smaller last batch."""
    sizes = _SIZES.search(fault.error)
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    if sizes is None or failed is None or tree is None or _drops_last(script):
        return None
    owner = class_at(tree, failed.line)
    for node in ast.walk(owner if owner is not None else scope_at(tree, failed.line)):
        if not isinstance(node, ast.Call) or dotted(node.func).rpartition(".")[2] not in _FILLS:
            continue
        fixed = [one for one in node.args if _BATCH.match(dotted(one))]
        if fixed and not _is_measured(tree, node, fixed[0]):
            place = script.place(failed.file, node)
            values = {"code": shown(node), "size": shown(fixed[0]), "where": str(place)}
            return Finding("fixed-batch", values, (place,))
    return None


def _is_measured(tree: ast.Module, node: ast.AST, size: ast.expr) -> bool:
    """Whether the number of samples is taken from a tensor: `batch_size = x.size(0)`, or given to the function."""
    scope = scope_at(tree, getattr(node, "lineno", 1))
    if isinstance(size, ast.Name) and isinstance(scope, Function):
        given = scope.args
        if any(one.arg == size.id for one in (*given.args, *given.kwonlyargs)):
            return True
        return any(
            isinstance(one, ast.Name) and one.id == size.id and isinstance(one.ctx, ast.Store)
            for one in own_nodes(scope)
        )
    return False


def _drops_last(script: Script) -> bool:
    return any(
        isinstance(node, ast.Call) and is_true(argument(node, "drop_last"))
        for _, tree in own_files(script)
        for node in ast.walk(tree)
    )


def _windows(fault: Fault, script: Script) -> Finding | None:
    """__len__ leaves out a part of what __getitem__ reads."""
    if _STACKED not in fault.error:
        return None
    for file, tree in own_files(script):
        for owner in ast.walk(tree):
            if not isinstance(owner, ast.ClassDef) or class_named(script, file, owner.name) is None:
                continue
            length, getter = method_of(owner, "__len__"), method_of(owner, "__getitem__")
            told = (
                None if length is None or getter is None else _window(script, file, length, getter)
            )
            if told is not None:
                return told
    return None


def _window(script: Script, file: str, length: Function, getter: Function) -> Finding | None:
    given = [one for one in own_nodes(length) if isinstance(one, ast.Return) and one.value]
    if len(given) != 1 or given[0].value is None or len(getter.args.args) < 2:
        return None
    counted = set(_terms(given[0].value, ast.Sub))
    index = getter.args.args[1].arg
    for node in own_nodes(getter):
        upper = node.upper if isinstance(node, ast.Slice) else None
        terms = [] if upper is None else list(_terms(upper, ast.Add))
        missing = [one for one in terms if one != index and one not in counted]
        if index not in terms or not missing or not counted & set(terms):
            continue
        if all(one.startswith("self.") for one in missing):
            place = script.place(file, given[0])
            values = {"missing": " + ".join(missing), "length": shown(given[0].value)}
            return Finding("window-too-long", {**values, "where": str(place)}, (place,))
    return None


def _terms(node: ast.expr, sign: type[ast.operator]) -> Iterator[str]:
    """The names that are added, or taken off: `self.a` and `self.b` of `len(x) - self.a - self.b`."""
    for _ in range(8):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
            break
        if isinstance(node.op, sign) and dotted(node.right):
            yield dotted(node.right)
        node = node.left
    if sign is ast.Add and dotted(node):
        yield dotted(node)
