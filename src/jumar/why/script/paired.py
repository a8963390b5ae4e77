"""An image and its mask that are turned by draws of their own, so that they no longer belong together."""

import ast
import re
from collections.abc import Iterator

from jumar.why.script.defined import class_called, method_of
from jumar.why.script.origin import Made, origins
from jumar.why.script.own import Own, all_nodes, called, calls_in, own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, dotted, shown

CAUSES = frozenset(("nothing", "checked", "python-error", "refused"))
_SCORES = re.compile(
    r"(?i)\b(?:m?iou|dice|jaccard|pixel acc\w*|f1|map)\b.{0,80}\b(?:below|under|worse|lower|chance|gate|threshold|baseline)\b"
)
_TARGETS = re.compile(r"(?i)(?:^|_)(?:mask|seg|label_?map|gt|annotation|target_img|depth)\w*$")
_DRAWS = re.compile(r"\b(?:random|rng|torch)\.(?:random|rand|randint|uniform|choice|integers)\w*\(")
_SEEDED = re.compile(r"manual_seed|set_state|\.seed\(|set_rng_state|ReplayCompose")
_GEOMETRY = re.compile(r"\.flip\(|fliplr|flipud|rot90|hflip|vflip|rotate|\.crop\(|affine")


def look(fault: Fault, script: Script) -> Finding | None:
    """`img = self.aug(img)` and `mask = self.aug(mask)`, where `aug` draws anew at each call."""
    if not _SCORES.search(fault.error):
        return None
    found = [
        (own, first, second)
        for own in own_files(script)
        for function in all_nodes(own.tree)
        if isinstance(function, Function) and not _SEEDED.search(ast.unparse(function))
        for first, second in _pairs(function)
        if _is_drawn(script, own, second)
    ]
    if len(found) != 1:
        return None
    own, first, second = found[0]
    places = (script.place(own.file, first), script.place(own.file, second))
    values = {"one": shown(first), "other": shown(second), "where": str(places[1])}
    return Finding(
        "pair-drawn-apart", values | {"call": dotted(second.func)}, places, "python-error"
    )


def _pairs(function: Function) -> Iterator[tuple[ast.Call, ast.Call]]:
    calls = [
        one
        for one in calls_in([function])
        if len(one.args) == 1 and not one.keywords and dotted(one.func)
    ]
    for second in calls:
        if not _TARGETS.search(dotted(second.args[0])):
            continue
        for first in calls:
            is_other = dotted(first.args[0]) and not _TARGETS.search(dotted(first.args[0]))
            if is_other and dotted(first.func) == dotted(second.func):
                yield first, second


def _is_drawn(script: Script, own: Own, call: ast.Call) -> bool:
    """Whether what is called is an object of one's own class that draws whether to flip or turn."""
    for at in origins(script, Made(own.file, call.func, None, call.lineno)):
        node = at.node.body if isinstance(at.node, ast.IfExp) else at.node
        found = class_called(script, at.file, node)
        method = None if found is None else method_of(found[1], "__call__")
        if method is not None and called(call):
            text = ast.unparse(method)
            is_drawn = bool(_DRAWS.search(text)) and not _SEEDED.search(text)
            return is_drawn and bool(_GEOMETRY.search(text))
    return False
