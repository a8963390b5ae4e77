"""A name that was given to something else: an imported module, a function or a method is hidden by it."""

import ast
import builtins
import re
from collections.abc import Iterator

from jumar.why.script.defined import attributes_set
from jumar.why.script.origin import failed_statement, parts_of
from jumar.why.script.own import own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import (
    Function,
    Scope,
    binders,
    class_at,
    dotted,
    own_nodes,
    parents_of,
    scope_at,
)

CAUSES = frozenset(("wrong-type", "attribute-missing", "library-use", "python-error"))
_ATTRIBUTE = re.compile(r"^\w+: '(?P<type>\w+)' object has no attribute '(?P<name>\w+)'")
_CALLED = re.compile(r"^\w+: '(?P<type>[\w.]+)' object is not callable")
_FUNCTIONS = frozenset(("function", "builtin_function_or_method", "type", "method", "module"))


def look(fault: Fault, script: Script) -> Finding | None:
    """The line that gave the name to something else."""
    found = failed_statement(script)
    tree = None if script.failed is None else script.tree(script.failed.file)
    if found is None or script.failed is None or tree is None:
        return None
    file, line = script.failed.file, script.failed.line
    attribute, called = _ATTRIBUTE.match(fault.error), _CALLED.match(fault.error)
    for node in parts_of(found[1]):
        if attribute is not None and isinstance(node, ast.Attribute):
            base = node.value
            if node.attr == attribute["name"] and isinstance(base, ast.Name):
                told = _hidden_import(script, file, tree, line, base.id)
                if told is not None:
                    return told
        if called is not None and isinstance(node, ast.Call):
            told = _hidden_call(script, file, tree, line, node.func)
            if told is not None:
                return told
    return None


def _import_of(tree: ast.Module, line: int, name: str) -> ast.AST | None:
    scopes: list[Scope] = [scope_at(tree, line), tree]
    for scope in scopes:
        for node in binders(scope, name):
            if isinstance(node, ast.Import | ast.ImportFrom):
                return node
    return None


def _others(tree: ast.Module, line: int, name: str) -> tuple[Scope, list[ast.AST]]:
    """What binds a name that is read at a line, other than imports, and the scope that does."""
    scope = scope_at(tree, line)
    chosen: Scope = scope
    if isinstance(scope, Function) and not binders(scope, name):
        chosen = tree
    found = [
        one for one in binders(chosen, name) if not isinstance(one, ast.Import | ast.ImportFrom)
    ]
    return chosen, found


def _parameter(scope: Scope, name: str) -> bool:
    if not isinstance(scope, Function):
        return False
    given = scope.args
    more = [one for one in (given.vararg, given.kwarg) if one is not None]
    return any(
        one.arg == name for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, *more)
    )


def _hidden_import(
    script: Script, file: str, tree: ast.Module, line: int, name: str
) -> Finding | None:
    """`for F in files:` below `import torch.nn.functional as F`."""
    imported = _import_of(tree, line, name)
    if imported is None:
        return None
    first = script.place(file, imported)
    scope = scope_at(tree, line)
    if _parameter(scope, name):
        place = script.place(file, scope)
        values = {"name": name, "where": str(place), "code": place.text, "first": first.text}
        return Finding("hidden-import", values, (first, place))
    imports = [one for one in binders(tree, name) if isinstance(one, ast.Import | ast.ImportFrom)]
    _, others = _others(tree, line, name)
    if len(others) == 1 or (others and len(imports) == 1):
        place = script.place(file, others[-1])
        values = {"name": name, "where": str(place), "code": place.text, "first": first.text}
        return Finding("hidden-import", values, (first, place))
    if not others and len(imports) > 1:
        last = script.place(file, imports[-1])
        values = {"name": name, "where": str(last), "code": last.text, "first": first.text}
        return Finding("hidden-import", values, (first, last))
    return None


def _hidden_call(
    script: Script, file: str, tree: ast.Module, line: int, called: ast.expr
) -> Finding | None:
    if isinstance(called, ast.Name):
        return _hidden_name(script, file, tree, line, called.id)
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        owner = class_at(tree, line) if called.value.id == "self" else None
        return _hidden_method(script, file, owner, called.attr)
    return None


def _hidden_name(
    script: Script, file: str, tree: ast.Module, line: int, name: str
) -> Finding | None:
    """`max = 0`, and `loss = loss(out, y)`."""
    scope, others = _others(tree, line, name)
    bound = [one for one in others if isinstance(one, ast.Name)]
    definitions = [one for one in others if isinstance(one, Function | ast.ClassDef)]
    imported = _import_of(tree, line, name)
    itself = _of_itself(scope, bound, name)
    if itself is not None and not definitions and imported is None:
        place = script.place(file, itself)
        values = {"name": name, "where": str(place), "code": place.text}
        return Finding("hidden-by-result", values, (place,))
    is_known = bool(definitions) or imported is not None or hasattr(builtins, name)
    if not is_known or not bound or _parameter(scope, name):
        return None
    if definitions and len(definitions) + len(bound) != 2:
        return None
    place = script.place(file, bound[-1])
    values = {"name": name, "where": str(place), "code": place.text}
    return Finding("hidden-function", values, (place,))


def _of_itself(scope: Scope, bound: list[ast.Name], name: str) -> ast.AST | None:
    """The assignment of a name by a call of the same name, in a loop or not."""
    parents = parents_of(scope)
    for one in bound:
        up = parents.get(one)
        value = up.value if isinstance(up, ast.Assign) else None
        if isinstance(value, ast.Call) and dotted(value.func) == name:
            return up
    return None


def _hidden_method(
    script: Script, file: str, owner: ast.ClassDef | None, name: str
) -> Finding | None:
    """`self.validate = True` in a class with a method `validate`."""
    owners = [(file, owner)] if owner is not None else list(_owners(script, name))
    hiding = [
        (at, one, statement)
        for at, one in owners
        for statement in attributes_set(one).get(name, [])
        if any(isinstance(inner, Function) and inner.name == name for inner in one.body)
    ]
    if len(hiding) != 1:
        return None
    at, one, statement = hiding[0]
    method = next(inner for inner in one.body if isinstance(inner, Function) and inner.name == name)
    places = (script.place(at, statement), script.place(at, method))
    values = {"name": name, "class": one.name, "where": str(places[0]), "code": places[0].text}
    return Finding("hidden-method", values, places)


def _owners(script: Script, method: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for file, tree in own_files(script):
        for node in own_nodes(tree):
            if isinstance(node, ast.ClassDef) and any(
                isinstance(one, Function) and one.name == method for one in node.body
            ):
                yield file, node
