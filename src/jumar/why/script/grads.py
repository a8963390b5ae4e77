"""Where the way from the loss to the parameters is cut, and tensors that a network keeps."""

import ast
from collections.abc import Iterator

from jumar.why.script.defined import is_module, is_true
from jumar.why.script.origin import Made, failed_statement, origins, parts_of
from jumar.why.script.own import own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import dotted, own_nodes, scope_at, shown

CAUSES = frozenset(("autograd",))
_NO_GRADIENT = "does not require grad"
_COPIED = "deepcopy protocol"
_ANEW = frozenset(
    ("torch.tensor", "torch.as_tensor", "torch.FloatTensor", "torch.Tensor", "torch.from_numpy")
)
_CUTS = frozenset(("item", "detach", "numpy", "argmax", "tolist", "long", "int", "bool"))
_MOST = 30


def look(fault: Fault, script: Script) -> Finding | None:
    """The expression that cuts it, or the attribute that keeps a tensor."""
    if _COPIED in fault.error:
        return _keeps(script)
    if _NO_GRADIENT in fault.error:
        return _cut(script) or _all_frozen(script)
    return None


def _cut(script: Script) -> Finding | None:
    """From the loss back through what made it."""
    found = failed_statement(script)
    if found is None:
        return None
    frame, statement = found
    call = script.calls[frame]
    backward = [
        one.func
        for one in parts_of(statement)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)
    ]
    losses = [one.value for one in backward if one.attr == "backward"]
    waiting = [Made(call.file, one, frame, call.line) for one in losses[:1]]
    seen = set[int]()
    while waiting and len(seen) < _MOST:
        at = waiting.pop(0)
        if id(at.node) in seen:
            continue
        seen.add(id(at.node))
        name = _cutter(at.node)
        if name is not None:
            place = script.place(at.file, at.node)
            values = {"code": shown(at.node), "cutter": name, "where": str(place)}
            return Finding(
                "gradient-cut-anew" if name in _ANEW else "gradient-cut", values, (place,)
            )
        before = list(origins(script, at))[1:2]
        waiting += before or [Made(at.file, one, at.frame, at.line) for one in _way(at.node)]
    return None


def _cutter(node: ast.expr) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    name = dotted(node.func)
    if name in _ANEW:
        return name
    last = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return last if last in _CUTS else None


def _way(node: ast.expr) -> Iterator[ast.expr]:
    """Through which parts of an expression the gradient has to go, where there is only one way."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and not dotted(node.func).startswith(
            ("F.", "nn.", "torch.", "self.")
        ):
            # `losses.mean()`: of what it is called on.
            is_of_tensor = not node.args or isinstance(node.args[0], ast.Constant)
            if is_of_tensor:
                yield node.func.value
                return
        if node.args:
            # A loss: its first argument is the prediction.
            yield node.args[0]
    elif isinstance(node, ast.BinOp):
        if isinstance(node.right, ast.Constant):
            yield node.left
        elif isinstance(node.left, ast.Constant):
            yield node.right
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Subscript):
        yield node.value


def _all_frozen(script: Script) -> Finding | None:
    """A loop that freezes every parameter of the model that is trained, and nothing that is set free later."""
    found: list[tuple[str, ast.For, str]] = []
    for file, tree in own_files(script):
        if "requires_grad_(True)" in (script.text(file) or ""):
            return None
        for loop in ast.walk(tree):
            if _sets_free(loop):
                return None
            if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
                continue
            base, _, last = dotted(loop.iter.func).rpartition(".")
            if last in ("parameters", "named_parameters") and base and _freezes(loop):
                found.append((file, loop, base))
    models = [one for one in found if "." not in one[2]]
    if len(found) != 1 or len(models) != 1:
        return None
    file, loop, model = found[0]
    tree = script.tree(file)
    is_trained = tree is not None and any(
        isinstance(one, ast.Call)
        and one.args
        and dotted(one.args[0].func if isinstance(one.args[0], ast.Call) else one.args[0])
        == f"{model}.parameters"
        for one in ast.walk(tree)
    )
    replaced = tree is not None and any(
        isinstance(one, ast.Assign)
        and one.lineno > loop.lineno
        and dotted(one.targets[0]).startswith(f"{model}.")
        for one in own_nodes(scope_at(tree, loop.lineno))
    )
    if not is_trained or replaced:
        return None
    place = script.place(file, loop)
    return Finding("all-frozen", {"model": model, "where": str(place)}, (place,))


def _sets_free(node: ast.AST) -> bool:
    """`p.requires_grad = True`."""
    is_set = isinstance(node, ast.Assign) and dotted(node.targets[0]).endswith(".requires_grad")
    return is_set and isinstance(node, ast.Assign) and is_true(node.value)


def _freezes(loop: ast.For) -> bool:
    first = loop.body[0]
    if len(loop.body) != 1:
        return False
    if isinstance(first, ast.Assign) and dotted(first.targets[0]).endswith(".requires_grad"):
        return isinstance(first.value, ast.Constant) and first.value.value is False
    return isinstance(first, ast.Expr) and "requires_grad_(False)" in ast.unparse(first)


def _keeps(script: Script) -> Finding | None:
    """`self.features = …` in forward(), and deepcopy of the network."""
    kept: list[tuple[str, ast.Assign, str]] = []
    for file, tree in own_files(script):
        for owner in ast.walk(tree):
            if not isinstance(owner, ast.ClassDef) or not is_module(owner):
                continue
            for method in owner.body:
                if isinstance(method, ast.FunctionDef) and method.name in ("forward", "encode"):
                    kept += [
                        (file, one, dotted(one.targets[0]))
                        for one in own_nodes(method)
                        if isinstance(one, ast.Assign)
                        and dotted(one.targets[0]).startswith("self.")
                        and not _is_cut(one.value)
                    ]
    if not kept:
        return None
    file, statement, name = kept[0]
    place = script.place(file, statement)
    return Finding("tensor-kept", {"name": name, "code": place.text, "where": str(place)}, (place,))


def _is_cut(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or any(
        isinstance(one, ast.Attribute) and one.attr in ("detach", "item", "shape", "size")
        for one in ast.walk(node)
    )
