"""Weights that were to be kept as they were, and that the training goes on changing."""

import ast
import re
from collections.abc import Iterator

from jumar.why.script.own import Own, all_nodes, called, calls_in, own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import chain_of, dotted, parents_of, shown

CAUSES = frozenset(("checked", "python-error", "refused", "not-there"))
_OF_BEST = re.compile(r"(?i)restor|\bbest\b|reproduc|re-?load|roll(?:ed)?[ -]?back|snapshot")
_LOOPS = ast.For | ast.While | ast.AsyncFor


def look(fault: Fault, script: Script) -> Finding | None:
    """`best = model.state_dict()` in the loop, and load_state_dict(best) behind it."""
    if not _OF_BEST.search(fault.error):
        return None
    files = own_files(script)
    loaded = {
        dotted(call.args[0])
        for own in files
        for call in calls_in([own.tree])
        if called(call) == "load_state_dict" and call.args
    } - {""}
    trains = any(called(call) == "backward" for own in files for call in calls_in([own.tree]))
    found = [one for own in files for one in _held(own) if one[1] in loaded]
    if len(found) != 1 or not trains:
        return None
    own, name, node = found[0]
    where = script.place(own.file, node)
    values = {"name": name, "code": shown(node), "value": shown(node.value), "where": str(where)}
    return Finding("state-not-copied", values, (where,), "python-error")


def _held(own: Own) -> Iterator[tuple[Own, str, ast.Assign]]:
    parents = parents_of(own.tree)
    for node in all_nodes(own.tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        is_state = called(node.value) == "state_dict" and not node.value.args
        if is_state and any(isinstance(one, _LOOPS) for one in chain_of(node, parents)):
            yield own, dotted(node.targets[0]), node
