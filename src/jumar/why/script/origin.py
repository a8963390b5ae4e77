"""Where a value comes from: from an expression at a line of the stack back to the one that made it."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jumar.why.script.defined import attributes_set, class_called, function_called, returns_of
from jumar.why.script.own import all_files, all_nodes, called, calls_in
from jumar.why.script.reading import Script
from jumar.why.script.tree import (
    Function,
    argument,
    binders,
    chain_of,
    class_at,
    dotted,
    parents_of,
    scope_at,
    statement_at,
)

_MOST_STEPS = 12
_HOLDERS = ast.If | ast.Try | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler
_OF_OBJECTS = ("__init__", "forward", "__call__")
LOOPS = ast.For | ast.AsyncFor | ast.While


@dataclass(frozen=True, slots=True)
class Made:
    """An expression, and where it stands."""

    file: str
    node: ast.expr
    frame: int | None = None
    """The frame of the stack in which it was evaluated, where that is known."""
    line: int = 0
    """As seen from this line names are looked up."""


def failed_statement(script: Script, frame: int = -1) -> tuple[int, ast.stmt] | None:
    """The statement of a frame, without what a block has inside; and the frame's number."""
    if not script.calls:
        return None
    index = frame % len(script.calls)
    call = script.calls[index]
    tree = script.tree(call.file)
    found = None if tree is None else statement_at(tree, call.line)
    return None if found is None else (index, found)


def parts_of(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement, without those of the statements inside of it."""
    waiting = [one for one in ast.iter_child_nodes(statement) if not isinstance(one, ast.stmt)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr):
            yield node
        if not isinstance(node, ast.Lambda | ast.ExceptHandler):
            waiting += [one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.stmt)]


def origins(script: Script, start: Made) -> Iterator[Made]:
    """The expression itself, what it was assigned from, what the function called there returns, and so on back."""
    at: Made | None = start
    for _ in range(_MOST_STEPS):
        if at is None:
            return
        yield at
        at = before(script, at)


def made_at_fault(script: Script, node: ast.expr, frame: int) -> Iterator[Made]:
    """The same for an expression of a frame's statement."""
    call = script.calls[frame]
    return origins(script, Made(call.file, node, frame, call.line))


def failed_nodes(script: Script) -> tuple[int, Sequence[ast.expr]]:
    """The expressions of the last frame's statement that may have failed: those that Python's marks point at, if there are any."""
    found = failed_statement(script)
    if found is None:
        return 0, ()
    frame, statement = found
    nodes = list(parts_of(statement))
    part = script.calls[frame].part
    try:
        wanted = ast.dump(ast.parse(part, mode="eval").body) if part else ""
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frame, nodes
    marked = next((one for one in nodes if wanted and ast.dump(one) == wanted), None)
    if marked is None:
        return frame, nodes
    return frame, [one for one in ast.walk(marked) if isinstance(one, ast.expr)]


def before(script: Script, at: Made) -> Made | None:
    """From what an expression has its value, one step back; None where that is not sure."""
    if isinstance(at.node, ast.Name):
        return _of_name(script, at, at.node)
    if isinstance(at.node, ast.Attribute):
        return _of_attribute(script, at, at.node)
    if isinstance(at.node, ast.Call):
        found = function_called(script, at.file, at.node)
        given = [] if found is None else returns_of(found[1])
        if found is not None and len(given) == 1 and given[0].value is not None:
            return Made(found[0], given[0].value, None, given[0].lineno)
    return None


def _of_name(script: Script, at: Made, name: ast.Name) -> Made | None:
    tree = script.tree(at.file)
    if tree is None:
        return None
    scope = scope_at(tree, at.line)
    parents = parents_of(scope)
    bound = binders(scope, name.id)
    given = [one for one in parameters(scope) if one.arg == name.id]
    if given and not bound and isinstance(scope, Function):
        return _given(script, at, scope, name.id)
    bound = [*given, *bound]
    if isinstance(scope, Function) and not bound:
        line = next((one.line for one in script.calls if one.file == at.file), 0)
        # As the file's own frame sees it, if that is on the stack.
        at = replace(at, line=line if scope_at(tree, line) is tree else 1 << 30, frame=None)
        parents, bound = parents_of(tree), binders(tree, name.id)
    chosen = _last(bound, at.line, parents)
    if isinstance(chosen, ast.arg) and isinstance(scope, Function):
        return _given(script, at, scope, name.id)
    value = None if chosen is None else _assigned(chosen, parents)
    if chosen is not None and value is None:
        return _of_results(script, at, chosen, parents)
    if chosen is None or value is None:
        return None
    return Made(at.file, value, at.frame, getattr(chosen, "lineno", 0))


def _last(bound: list[ast.AST], line: int, parents: dict[ast.AST, ast.AST]) -> ast.AST | None:
    """What bound a name that is read at a line; None if it may have been another."""
    if len(bound) == 1:
        return bound[0]
    before = [one for one in bound if getattr(one, "lineno", 0) < line]
    if not before:
        return None
    for holder in chain_of(before[-1], parents):
        if isinstance(holder, _HOLDERS) and not _has(holder, line):
            return None
    for one in bound:
        loops = [up for up in chain_of(one, parents) if isinstance(up, LOOPS)]
        is_later = getattr(one, "lineno", 0) >= line
        if is_later and any(_has(up, line) and not _has(up, _line(before[-1])) for up in loops):
            return None
    return before[-1]


def _assigned(bound: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.expr | None:
    """The whole value of `name = value`; None of loops and of what is unpacked."""
    up = parents.get(bound)
    if isinstance(up, ast.Assign) and any(one is bound for one in up.targets):
        return up.value
    if isinstance(up, ast.AnnAssign | ast.NamedExpr):
        return up.value
    if isinstance(up, ast.Tuple | ast.List):
        whole = parents.get(up)
        value = whole.value if isinstance(whole, ast.Assign) else None
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(up.elts):
            place = next(i for i, one in enumerate(up.elts) if one is bound)
            has_star = any(isinstance(one, ast.Starred) for one in (*up.elts, *value.elts))
            return None if has_star else value.elts[place]
    return None


def _of_results(
    script: Script, at: Made, bound: ast.AST, parents: dict[ast.AST, ast.AST]
) -> Made | None:
    """`train, val = make_loaders()`: what that function returns in that place."""
    up = parents.get(bound)
    whole = parents.get(up) if isinstance(up, ast.Tuple) else None
    call = whole.value if isinstance(whole, ast.Assign) else None
    found = function_called(script, at.file, call) if isinstance(call, ast.Call) else None
    given = [] if found is None else returns_of(found[1])
    value = given[0].value if len(given) == 1 else None
    if found is None or not isinstance(up, ast.Tuple) or not isinstance(value, ast.Tuple):
        return None
    has_star = any(isinstance(one, ast.Starred) for one in (*up.elts, *value.elts))
    if has_star or len(up.elts) != len(value.elts):
        return None
    place = next(i for i, one in enumerate(up.elts) if one is bound)
    return Made(found[0], value.elts[place], None, given[0].lineno)


def _of_attribute(script: Script, at: Made, node: ast.Attribute) -> Made | None:
    tree = script.tree(at.file)
    owner = None if tree is None else class_at(tree, at.line)
    if owner is None or dotted(node) != f"self.{node.attr}":
        return None
    found = attributes_set(owner).get(node.attr, [])
    if len(found) != 1 or not isinstance(found[0], ast.Assign) or len(found[0].targets) != 1:
        return None
    if not isinstance(found[0].targets[0], ast.Attribute):
        return None
    return Made(at.file, found[0].value, None, found[0].lineno)


def _given(script: Script, at: Made, scope: Function, name: str) -> Made | None:
    """What the caller in the stack gave for a parameter; where the stack has none, the only call there is."""
    if at.frame is None:
        return _given_anywhere(script, at, scope, name)
    if at.frame == 0:
        return None
    index = at.frame - 1
    caller = script.calls[index]
    found = failed_statement(script, index)
    calls = [] if found is None else calls_of(found[1], scope.name)
    if found is not None and not calls and scope.name in _OF_OBJECTS:
        calls = _calls_of_object(script, caller.file, found[1], at, index)
    if len(calls) != 1:
        return None
    value = given_for(calls[0], scope, name)
    return None if value is None else Made(caller.file, value, index, caller.line)


def _calls_of_object(
    script: Script, file: str, statement: ast.stmt, at: Made, frame: int
) -> list[ast.Call]:
    """`crit(model(x), y)`, where `crit` is an object of the class whose forward it is."""
    tree = script.tree(at.file)
    owner = None if tree is None else class_at(tree, at.line)
    line = script.calls[frame].line
    scope = None if tree is None else scope_at(tree, at.line)
    if owner is not None and isinstance(scope, Function) and scope.name == "__init__":
        return calls_of(statement, owner.name)
    return [
        one
        for one in parts_of(statement)
        if owner is not None
        and isinstance(one, ast.Call)
        and isinstance(one.func, ast.Name | ast.Attribute)
        and any(
            (class_called(script, made.file, made.node) or ("", None))[1] is owner
            for made in origins(script, Made(file, one.func, frame, line))
        )
    ]


def _given_anywhere(script: Script, at: Made, scope: Function, name: str) -> Made | None:
    tree = script.tree(at.file)
    owner = None if tree is None else class_at(tree, scope.lineno)
    is_init = scope.name == "__init__" and owner is not None
    wanted = owner.name if owner is not None and is_init else scope.name
    if owner is not None and not is_init:
        return None
    files = all_files(script)
    makers = [
        one
        for _, tree in files
        for one in all_nodes(tree)
        if isinstance(one, Function | ast.ClassDef) and one.name == wanted
    ]
    uses = [
        (file, one) for file, tree in files for one in calls_in([tree]) if called(one) == wanted
    ]
    if len(makers) != 1 or len(uses) != 1:
        return None
    file, call = uses[0]
    names = [one for one in _parameters(scope) if one != "self"]
    has_star = any(isinstance(one, ast.Starred) for one in call.args)
    if name not in names or has_star:
        return None
    value = argument(call, name, names.index(name))
    return None if value is None else Made(file, value, None, call.lineno)


def calls_of(statement: ast.stmt, function: str) -> list[ast.Call]:
    """The calls of a function in a statement, by its name."""
    return [
        one
        for one in parts_of(statement)
        if isinstance(one, ast.Call) and dotted(one.func).rpartition(".")[2] == function
    ]


def given_for(call: ast.Call, function: Function, name: str) -> ast.expr | None:
    """The argument for a parameter; None if it is not given by itself."""
    if any(isinstance(one, ast.Starred) for one in call.args):
        return None
    names = _parameters(function)
    is_bound = isinstance(call.func, ast.Attribute) or function.name in _OF_OBJECTS
    is_method = bool(names) and names[0] in ("self", "cls") and is_bound
    place = names.index(name) - int(is_method) if name in names else None
    return argument(call, name, place if place is None or place >= 0 else None)


def parameters(scope: ast.AST) -> list[ast.arg]:
    """Those of a function; none of a module."""
    if not isinstance(scope, Function):
        return []
    given = scope.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def _parameters(function: Function) -> list[str]:
    return [one.arg for one in parameters(function)]


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _has(node: ast.AST, line: int) -> bool:
    return _line(node) <= line <= getattr(node, "end_lineno", 0)
