"""The functions and classes of the training's own code that a call means, and what they have."""

import ast
from collections.abc import Iterator

from jumar.why.script.own import imported_files, own_files
from jumar.why.script.reading import Script
from jumar.why.script.tree import Function, binders, class_at, dotted, own_nodes


def function_called(script: Script, file: str, call: ast.Call) -> tuple[str, Function] | None:
    """The function of one's own that is called, if there is no doubt which."""
    name = dotted(call.func)
    base, _, last = name.rpartition(".")
    tree = script.tree(file)
    if not name or tree is None:
        return None
    if base == "self":
        return _method(script, file, call.lineno, last)
    if not base:
        found = _defined(tree, last)
        if isinstance(found, Function):
            return file, found
    return _imported_function(script, file, tree, base, last)


def class_called(script: Script, file: str, call: ast.expr) -> tuple[str, ast.ClassDef] | None:
    """The class of one's own of which an object is made there."""
    name = dotted(call.func) if isinstance(call, ast.Call) else ""
    return class_named(script, file, name.rpartition(".")[2]) if name else None


def class_named(script: Script, file: str, name: str) -> tuple[str, ast.ClassDef] | None:
    """The only class of this name, in this file or in those near."""
    tree = script.tree(file)
    here = [] if tree is None else _classes(tree, name)
    if len(here) == 1:
        return file, here[0]
    found = [(other, one) for other, tree in own_files(script) for one in _classes(tree, name)]
    return found[0] if len(found) == 1 else None


def method_of(owner: ast.ClassDef, name: str) -> Function | None:
    """A method of a class, the last of that name."""
    found = [one for one in owner.body if isinstance(one, Function) and one.name == name]
    return found[-1] if found else None


def is_module(owner: ast.ClassDef) -> bool:
    """Whether a class is a network of torch right away."""
    return any(
        dotted(one).rpartition(".")[2] in ("Module", "LightningModule") for one in owner.bases
    )


def is_true(node: ast.expr | None) -> bool:
    """Whether it is the literal True."""
    return isinstance(node, ast.Constant) and node.value is True


def freezes(part: ast.AST) -> bool:
    """Whether some statement in it switches the gradient of parameters off."""
    return any(is_off for _, is_off in gradients_set(part))


def gradients_set(part: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """What sets requires_grad by a literal, and whether it sets it off."""
    for node in ast.walk(part):
        value = None
        if isinstance(node, ast.Assign) and dotted(node.targets[0]).endswith(".requires_grad"):
            value = node.value
        elif isinstance(node, ast.Call) and _last(node) == "requires_grad_":
            value = node.args[0] if node.args else ast.Constant(value=True)
        if isinstance(value, ast.Constant) and isinstance(value.value, bool):
            yield node, not value.value


def _last(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def attributes_set(owner: ast.ClassDef) -> dict[str, list[ast.stmt]]:
    """What the methods of a class set on `self`, and by which statements."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in ast.walk(owner):
        if not isinstance(
            statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For | ast.With
        ):
            continue
        for node in _targets(statement):
            if isinstance(node, ast.Attribute) and dotted(node) == f"self.{node.attr}":
                found.setdefault(node.attr, []).append(statement)
    return found


def _targets(statement: ast.stmt) -> Iterator[ast.AST]:
    if isinstance(statement, ast.Assign):
        given: list[ast.expr] = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign | ast.For):
        given = [statement.target]
    elif isinstance(statement, ast.With):
        given = [one.optional_vars for one in statement.items if one.optional_vars is not None]
    else:
        given = []
    for one in given:
        yield from (
            node for node in ast.walk(one) if isinstance(getattr(node, "ctx", None), ast.Store)
        )


def _defined(tree: ast.Module, name: str) -> ast.AST | None:
    found = binders(tree, name)
    return found[0] if len(found) == 1 else None


def _method(script: Script, file: str, line: int, name: str) -> tuple[str, Function] | None:
    tree = script.tree(file)
    owner = None if tree is None else class_at(tree, line)
    found = None if owner is None else method_of(owner, name)
    return None if found is None else (file, found)


def _imported_function(
    script: Script, file: str, tree: ast.Module, base: str, name: str
) -> tuple[str, Function] | None:
    for node in own_nodes(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        known = {one.asname or one.name: one.name for one in node.names}
        if (base or name) not in known:
            continue
        wanted = known[name] if not base and isinstance(node, ast.ImportFrom) else name
        for other in imported_files(script, file, node):
            inside = script.tree(other)
            found = None if inside is None else _defined(inside, wanted)
            if isinstance(found, Function):
                return other, found
    return None


def _classes(tree: ast.Module, name: str) -> list[ast.ClassDef]:
    return [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef) and one.name == name]


def returns_of(function: Function) -> list[ast.Return]:
    """What a function returns, in order."""
    found = [one for one in own_nodes(function) if isinstance(one, ast.Return)]
    return sorted(found, key=lambda one: one.lineno)
