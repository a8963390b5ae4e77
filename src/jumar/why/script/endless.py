"""Loops that wait for something that never comes."""

import ast
import re

from jumar.why.script.own import all_nodes, called, calls_in, own_files, text_in
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import shown

CAUSES = frozenset(("time-limit", "stalled", "nothing"))
_ASKS = frozenset(("exists", "isfile", "isdir", "is_file", "is_dir", "path_exists"))


def look(fault: Fault, script: Script) -> Finding | None:
    """The loop that asks for a file for ever, if what is printed right before it is the last that was."""
    found = [
        (own, node)
        for own in own_files(script)
        for node in all_nodes(own.tree)
        if isinstance(node, ast.While) and _waits(node)
    ]
    if len(found) != 1:
        return None
    own, loop = found[0]
    said = _said_before(own.tree, loop)
    lines = [one.strip() for one in fault.log.splitlines() if one.strip()]
    if not said or not any(said in one for one in lines[-4:]):
        return None
    where = script.place(own.file, loop)
    values = {"loop": where.text, "where": str(where), "asked": shown(loop.test), "said": said}
    return Finding("waits-for-ever", values, (where,), "time-limit")


def _waits(loop: ast.While) -> bool:
    is_negated = isinstance(loop.test, ast.UnaryOp) and isinstance(loop.test.op, ast.Not)
    asks = any(called(call) in _ASKS for call in calls_in([loop.test]))
    leaves = any(isinstance(node, ast.Break | ast.Raise | ast.Return) for node in ast.walk(loop))
    return is_negated and asks and not leaves


def _said_before(tree: ast.Module, loop: ast.While) -> str:
    """The text of the last print above the loop."""
    prints = [
        call
        for call in calls_in([tree])
        if called(call) in ("print", "info", "warning") and call.args and call.lineno < loop.lineno
    ]
    last = max(prints, key=lambda call: call.lineno, default=None)
    text = None if last is None or loop.lineno - last.lineno > 3 else text_in(last.args[0])
    return re.sub(r"\\s+", " ", text or "").strip()
