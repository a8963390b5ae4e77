"""A name that a function has not bound when it is used: where it would be bound, and why that was passed by."""

import ast
import re

from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, binders, chain_of, parents_of, scope_at

CAUSES = frozenset(("name-missing",))
_LOCAL = re.compile(
    r"local variable '(?P<name>\w+)' (?:where it is not associated|referenced before)"
)
_LOOPS = ast.For | ast.AsyncFor | ast.While


def look(fault: Fault, script: Script) -> Finding | None:
    """The condition or the loop in which alone the name is bound."""
    named = _LOCAL.search(fault.error)
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    if named is None or failed is None or tree is None:
        return None
    scope = scope_at(tree, failed.line)
    bound = binders(scope, named["name"]) if isinstance(scope, Function) else []
    if not bound:
        return None
    values = {"name": named["name"], "function": getattr(scope, "name", "")}
    first = script.place(failed.file, bound[0])
    if all(getattr(node, "lineno", 0) >= failed.line for node in bound):
        return Finding("unbound-later", {**values, "where": str(first)}, (first,))
    parents = parents_of(scope)
    holders = [
        holder
        for holder in chain_of(bound[0], parents)
        if isinstance(holder, ast.If | ast.Try | _LOOPS)
    ]
    if len(bound) > 1 or not holders:
        return None
    holder = holders[0]
    kind = (
        "unbound-loop"
        if isinstance(holder, _LOOPS)
        else "unbound-branch"
        if isinstance(holder, ast.If)
        else "unbound-try"
    )
    around = script.place(failed.file, holder)
    return Finding(kind, {**values, "where": str(first), "holder": around.text}, (around, first))
