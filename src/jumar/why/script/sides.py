"""Labels, outputs and arguments followed back to the code that gives them a wrong value or shape."""

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from jumar.why.script.defined import class_called, method_of, returns_of
from jumar.why.script.ends import trail
from jumar.why.script.origin import Made, failed_nodes, parameters
from jumar.why.script.own import all_files, all_nodes, called, calls_in, own_files, text_in
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import (
    Function,
    argument,
    binders,
    dotted,
    parents_of,
    scope_at,
    shown,
)

CAUSES = frozenset(
    (
        *("index-range", "gpu-assert", "shape", "host-allocation", "device-memory", "dtype"),
        *("wrong-type", "attribute-missing", "library-use", "python-error", "data-broken"),
        *("unsupported", "none-value", "host-memory", "kernel-arguments"),
    )
)
_BELOW_ZERO = re.compile(r"Target -1 is out of bounds")
_NO_BATCH = re.compile(
    r"torch\.Size\(\[1\]\).*torch\.Size\(\[\]\)|torch\.Size\(\[\]\).*Size\(\[1\]\)"
)
_BYTES = re.compile(r"tried to allocate (\d+) bytes")
_OBJECT = re.compile(r"numpy\.object_|dtype\('O'\)|could not convert string to float")
_CHAINED = re.compile(r"ChainedAssignmentError|chained assignment using an inplace")
_NUMBER = re.compile(r"'int' object (?:has no attribute|is not subscriptable|is not iterable)")
_PASSED = frozenset(
    (
        *("tensor", "as_tensor", "from_numpy", "asarray", "array", "int", "long", "astype", "to"),
        *("numpy", "to_numpy", "copy", "clone", "int64", "LongTensor", "tolist", "to_list"),
    )
)
_WRAPS = frozenset(("enumerate", "tqdm", "trange", "list", "iter", "track"))
_INDEX = re.compile(r"(?:.*_)?(?:rank|gpu|idx|index|proc|pid|i)(?:_id)?$")
_LEAST_PAIRS = 1_000


def look(fault: Fault, script: Script) -> Finding | None:
    """What the trace of the failing expression shows."""
    if script.failed is None:
        return None
    frame, nodes = failed_nodes(script)
    return (
        _codes(fault, script, frame, nodes)
        or _squeezed(fault, script, frame, nodes)
        or _pairs(fault, script, frame, nodes)
        or _chained(fault, script)
        or _spawned(fault, script, frame, nodes)
    )


def _made(script: Script, frame: int, node: ast.expr) -> Made:
    call = script.calls[frame]
    return Made(call.file, node, frame, call.line)


def _names(nodes: Sequence[ast.expr]) -> Iterator[ast.Name]:
    yield from (one for one in nodes if isinstance(one, ast.Name))


def _codes(fault: Fault, script: Script, frame: int, nodes: Sequence[ast.expr]) -> Finding | None:
    """Labels that are codes of categories: -1 stands for what is none of them."""
    if not _BELOW_ZERO.search(fault.error):
        return None
    for name in _names(nodes):
        for made in _given_by_data(script, _made(script, frame, name)):
            node = made.node
            if not isinstance(node, ast.Attribute) or node.attr != "codes":
                continue
            table = node.value
            is_made = isinstance(table, ast.Call) and called(table) == "Categorical"
            listed = argument(table, "categories", 1) if isinstance(table, ast.Call) else None
            is_column = isinstance(table, ast.Attribute) and table.attr == "cat"
            if not is_made and not is_column:
                continue
            place = script.place(made.file, node)
            names = "" if listed is None else f" ({shown(listed)})"
            values = {"code": shown(node), "where": str(place), "names": names}
            return Finding("codes-of-unknown", values, (place,))
    return None


def _given_by_data(script: Script, start: Made) -> Iterator[Made]:
    """From `y` of `for x, y in loader` back to what the data set's `__getitem__` gives there, and on."""
    at: Made | None = start
    for _ in range(4):
        if at is None:
            return
        last = at
        for link in trail(script, at):
            last = link.made
            yield last
        at = _inside(last) or _entry_of_batch(script, last)


def _inside(made: Made) -> Made | None:
    """`torch.tensor(x)`, `x.astype(…)`, `x[i]`: what they take their value from."""
    node = made.node
    if isinstance(node, ast.Subscript) and text_in(node.slice) is None:
        return replace(made, node=node.value)
    if not isinstance(node, ast.Call) or called(node) not in _PASSED:
        return None
    is_library = dotted(node.func).partition(".")[0] in ("torch", "np", "numpy", "int")
    if is_library:
        return replace(made, node=node.args[0]) if node.args else None
    if isinstance(node.func, ast.Attribute):
        return replace(made, node=node.func.value)
    return None


def _entry_of_batch(script: Script, made: Made) -> Made | None:
    tree = script.tree(made.file)
    if tree is None or not isinstance(made.node, ast.Name):
        return None
    scope = scope_at(tree, made.line)
    parents = parents_of(scope)
    bound = [
        (loop, way)
        for one in binders(scope, made.node.id)
        if (found := _in_loop(one, parents)) is not None
        for loop, way in [found]
        if loop.lineno <= made.line <= (loop.end_lineno or 0)
    ]
    if len(bound) != 1:
        return None
    loop, way = bound[0]
    over = loop.iter
    while isinstance(over, ast.Call) and called(over) in _WRAPS and over.args:
        way = way[1:] if called(over) == "enumerate" else way
        over = over.args[0]
    if len(way) != 1:
        return None
    entry = _of_dataset(script, replace(made, node=over, line=loop.lineno), way[0])
    return entry


def _in_loop(
    bound: ast.AST, parents: Mapping[ast.AST, ast.AST]
) -> tuple[ast.For, list[int]] | None:
    """The loop whose target a name is in, and its places in the tuples on the way."""
    way: list[int] = []
    at, up = bound, parents.get(bound)
    while isinstance(up, ast.Tuple | ast.List):
        way.insert(0, next(place for place, one in enumerate(up.elts) if one is at))
        at, up = up, parents.get(up)
    return (up, way) if isinstance(up, ast.For) and up.target is at else None


def _of_dataset(script: Script, loader: Made, place: int) -> Made | None:
    for link in trail(script, loader):
        node = link.made.node
        if not isinstance(node, ast.Call):
            continue
        if called(node) in ("DataLoader", "Subset"):
            data = argument(node, "dataset", 0)
            inner = None if data is None else replace(link.made, node=data, line=node.lineno)
            return None if inner is None else _of_dataset(script, inner, place)
        found = class_called(script, link.made.file, node)
        getter = None if found is None else method_of(found[1], "__getitem__")
        if found is None or getter is None:
            continue
        given = returns_of(getter)
        value = given[0].value if len(given) == 1 else None
        if isinstance(value, ast.Tuple) and place < len(value.elts):
            return Made(found[0], value.elts[place], None, given[0].lineno)
    return None


def _squeezed(
    fault: Fault, script: Script, frame: int, nodes: Sequence[ast.expr]
) -> Finding | None:
    """`.squeeze()` of a batch of one."""
    if not _NO_BATCH.search(fault.error):
        return None
    found: list[Made] = []
    for node in nodes:
        if isinstance(node, ast.Name | ast.Call):
            links = [link.made for link in trail(script, _made(script, frame, node))]
            # `criterion(model(x), y)` is no output of the model, whatever it is.
            ends = [one for link in links for one in (link, *_output(script, link))]
            found += [one for one in ends if _is_squeeze(one.node)]
    if len({(one.file, one.node.lineno) for one in found}) != 1:
        return None
    place = script.place(found[0].file, found[0].node)
    values = {"code": shown(found[0].node), "where": str(place)}
    return Finding("squeezed-batch", values, (place,))


def _is_squeeze(node: ast.expr) -> bool:
    is_it = isinstance(node, ast.Call) and called(node) == "squeeze" and not node.keywords
    if not is_it or not isinstance(node, ast.Call):
        return False
    is_of_torch = dotted(node.func) == "torch.squeeze"
    return isinstance(node.func, ast.Attribute) and len(node.args) == int(is_of_torch)


def _output(script: Script, made: Made) -> Iterator[Made]:
    """What the network that is called there returns."""
    if not isinstance(made.node, ast.Call):
        return
    line = made.line or made.node.lineno
    for link in trail(script, replace(made, node=made.node.func, line=line)):
        found = class_called(script, link.made.file, link.made.node)
        forward = None if found is None else method_of(found[1], "forward")
        given = [] if forward is None else returns_of(forward)
        if found is not None and len(given) == 1 and given[0].value is not None:
            returned = Made(found[0], given[0].value, None, given[0].lineno)
            yield from (one.made for one in trail(script, returned))


def _pairs(fault: Fault, script: Script, frame: int, nodes: Sequence[ast.expr]) -> Finding | None:
    """(N, 1) with (N,): so many bytes were asked for as N times N numbers take."""
    asked = _BYTES.search(fault.error)
    whole = nodes[0] if nodes else None
    if asked is None or not isinstance(whole, ast.BinOp):
        return None
    counts = [math.isqrt(int(asked[1]) // size) for size in (4, 8, 2)]
    exact = [n for n, size in zip(counts, (4, 8, 2), strict=True) if n * n * size == int(asked[1])]
    for side in (whole.left, whole.right) if exact and exact[0] >= _LEAST_PAIRS else ():
        for link in trail(script, _made(script, frame, side)):
            layer = _last_layer(script, link.made)
            if layer is None:
                continue
            place = script.place(layer.file, layer.node)
            values = {"code": shown(whole), "count": str(exact[0]), "column": shown(side)}
            values |= {"layer": shown(layer.node), "where": str(place)}
            return Finding("pairs-made", values, (place,), "shape")
    return None


def _last_layer(script: Script, made: Made) -> Made | None:
    """The `nn.Linear(…, 1)` at the end of the network that is called there."""
    if not isinstance(made.node, ast.Call):
        return None
    calls = [made, *_output(script, made)]
    for one in calls:
        if not isinstance(one.node, ast.Call):
            continue
        line = one.line or one.node.lineno
        for link in trail(script, replace(one, node=one.node.func, line=line)):
            layer = link.made.node
            if isinstance(layer, ast.Call) and called(layer) == "Sequential" and layer.args:
                layer = layer.args[-1]
            width = argument(layer, "out_features", 1) if isinstance(layer, ast.Call) else None
            is_one = isinstance(width, ast.Constant) and width.value == 1
            if isinstance(layer, ast.Call) and called(layer) == "Linear" and is_one:
                return replace(link.made, node=layer)
    return None


def _chained(fault: Fault, script: Script) -> Finding | None:
    """`df["a"].replace(…, inplace=True)`, of which pandas itself said that it does nothing."""
    if not _OBJECT.search(fault.error) or not _CHAINED.search(fault.log):
        return None
    for file, tree in own_files(script):
        for node in all_nodes(tree):
            call = node.value if isinstance(node, ast.Expr) else None
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            column = call.func.value
            inplace = argument(call, "inplace")
            is_true = isinstance(inplace, ast.Constant) and inplace.value is True
            if not is_true or not isinstance(column, ast.Subscript) or not dotted(column.value):
                continue
            kept = [one for one in call.keywords if one.arg != "inplace"]
            better = ast.Call(call.func, call.args, kept)
            place = script.place(file, node)
            values = {"code": shown(call), "where": str(place)}
            values |= {"better": f"{shown(column)} = {shown(better)}"}
            return Finding("column-chained", values, (place,))
    return None


def _spawned(fault: Fault, script: Script, frame: int, nodes: Sequence[ast.expr]) -> Finding | None:
    """The first parameter of a function that spawn() starts is the number of the process."""
    if not _NUMBER.search(fault.error):
        return None
    for name in _names(nodes):
        *_, last = trail(script, _made(script, frame, name))
        tree = script.tree(last.made.file)
        scope = None if tree is None else scope_at(tree, last.made.line)
        node = last.made.node
        if not isinstance(scope, Function) or not isinstance(node, ast.Name):
            continue
        names = [one.arg for one in parameters(scope)]
        if len(names) < 2 or names[0] != node.id or not _is_spawned(script, scope.name):
            continue
        number = [one for one in names[1:] if _INDEX.fullmatch(one)]
        if len(number) != 1:
            continue
        place = script.place(last.made.file, scope)
        better = [number[0], *(one for one in names if one != number[0])]
        values = {"name": node.id, "function": scope.name, "where": str(place)}
        values |= {"better": f"{scope.name}({', '.join(better)})"}
        return Finding("spawn-index", values, (place,), "arguments")
    return None


def _is_spawned(script: Script, function: str) -> bool:
    started = [
        argument(call, "fn", 0)
        for _, tree in all_files(script)
        for call in calls_in([tree])
        if called(call) in ("spawn", "start_processes")
    ]
    return any(one is not None and dotted(one) == function for one in started)
