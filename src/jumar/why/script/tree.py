"""Walks in parsed code that more than one check needs."""

import ast
from collections.abc import Iterator
from functools import lru_cache

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.Module | Function
_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


def statement_at(tree: ast.Module, line: int) -> ast.stmt | None:
    """The innermost statement that has this line."""
    found = None
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            # What is inside comes later in the walk.
            found = node
    return found


def scope_at(tree: ast.Module, line: int) -> Scope:
    """The innermost function that has this line; the module if there is none."""
    found: Scope = tree
    for node in ast.walk(tree):
        is_there = isinstance(node, Function) and node.lineno <= line <= (node.end_lineno or 0)
        if isinstance(node, Function) and is_there:
            found = node
    return found


def class_at(tree: ast.Module, line: int) -> ast.ClassDef | None:
    """The innermost class that has this line."""
    found = None
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0):
            found = node
    return found


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """All inside a function or a module, without what inner functions and classes have in them; these themselves are given."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def binders(scope: ast.AST, name: str) -> list[ast.AST]:
    """What binds a name there, in order: assignments, loops, imports, `with`, `except`, definitions."""
    found = [node for node in own_nodes(scope) if name in bound_by(node)]
    return sorted(found, key=lambda node: getattr(node, "lineno", 0))


def bound_by(node: ast.AST) -> set[str]:
    """The names that a node binds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(one.asname or one.name).split(".")[0] for one in node.names}
    if isinstance(node, Function | ast.ClassDef):
        return {node.name}
    return {node.name} if isinstance(node, ast.ExceptHandler) and node.name else set()


@lru_cache(maxsize=256)
def parents_of(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """For each node what it is in, once for all checks."""
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def chain_of(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    """What a node is in, from the inside out."""
    while node in parents:
        node = parents[node]
        yield node


def dotted(node: ast.AST) -> str:
    """`torch.nn.Linear` of such an expression; empty of any other."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """An argument by its name, or where it stands."""
    for one in call.keywords:
        if one.arg == name:
            return one.value
    is_there = position is not None and position < len(call.args)
    return call.args[position] if is_there and position is not None else None


def shown(node: ast.AST, most: int = 80) -> str:
    """Code on one line, for an answer."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= most else f"{text[:most]}…"
