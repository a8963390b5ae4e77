"""Parameters that are set free after DDP wrapped the model: it never averages their gradients."""

import ast
import re
from collections.abc import Iterator, Sequence

from jumar.why.script.defined import gradients_set
from jumar.why.script.own import Own, called, calls_in, functions_of, own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import scope_at, shown

CAUSES = frozenset(("python-error", "checked", "refused", "rank-mismatch", "not-there"))
_APART = re.compile(
    r"(?i)out of sync|not in sync|\bin sync\b|replica|desync|diverged? (?:across|between|on)|(?:across|between|on all) (?:the )?(?:ranks|processes|workers|gpus)"
)
_WRAPS = frozenset(("DistributedDataParallel", "DDP"))


def look(fault: Fault, script: Script) -> Finding | None:
    """What was frozen as DDP was made, and is trained later."""
    if not _APART.search(fault.error):
        return None
    files = own_files(script)
    wraps = [
        (own, call) for own in files for call in calls_in([own.tree]) if called(call) in _WRAPS
    ]
    if len(wraps) != 1:
        return None
    own, wrap = wraps[0]
    scope = scope_at(own.tree, wrap.lineno)
    switches = sorted(_switches(own, scope, files), key=lambda one: one[0].lineno)
    frozen = [
        node for node, is_off in switches if node.lineno < wrap.lineno and is_off is not False
    ]
    freed = [node for node, is_off in switches if node.lineno > wrap.lineno and is_off is not True]
    if not frozen or not freed or shown(frozen[-1]) == shown(freed[0]):
        return None
    places = tuple(script.place(own.file, one) for one in (frozen[-1], wrap, freed[0]))
    values = {"wrap": shown(wrap), "code": places[2].text, "frozen": str(places[0])}
    values |= {"made": str(places[1]), "where": str(places[2])}
    return Finding("freed-after-ddp", values, places, "rank-mismatch")


def _switches(
    own: Own, scope: ast.AST, files: Sequence[Own]
) -> Iterator[tuple[ast.stmt | ast.expr, bool | None]]:
    """What freezes or frees parameters there: True, False, or None where an argument decides."""
    for node, is_off in gradients_set(scope):
        if isinstance(node, ast.stmt | ast.expr):
            yield node, is_off
    known = functions_of(files)
    for call in calls_in([scope]):
        found = known.get(called(call))
        if found is None or found[1] is scope:
            continue
        if any(_by_argument(node) for node in ast.walk(found[1])):
            yield call, None
        else:
            inside = {is_off for _, is_off in gradients_set(found[1])}
            if len(inside) == 1:
                yield call, inside.pop()


def _by_argument(node: ast.AST) -> bool:
    """`p.requires_grad_(not frozen)`."""
    if isinstance(node, ast.Call) and called(node) == "requires_grad_" and node.args:
        return not isinstance(node.args[0], ast.Constant)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        is_it = node.targets[0].attr == "requires_grad"
        return is_it and not isinstance(node.value, ast.Constant)
    return False
