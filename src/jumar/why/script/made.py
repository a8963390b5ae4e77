"""A value that is of another kind than the line needs: where the script made it so."""

import ast
import re
from collections.abc import Iterator

from jumar.why.script.defined import function_called, returns_of
from jumar.why.script.origin import Made, failed_statement, made_at_fault, origins, parts_of
from jumar.why.script.reading import Fault, Finding, Place, Script
from jumar.why.script.tree import Function, argument, dotted, shown

CAUSES = frozenset(
    ("wrong-type", "none-value", "attribute-missing", "library-use", "unpacking", "python-error")
)
_NONE = re.compile(r"\bNone(?:Type)?\b")
_IN_PLACE = frozenset(
    ("shuffle", "sort", "reverse", "append", "extend", "insert", "clear", "update")
)
_RETURNS_NONE = frozenset(("backward", "zero_grad", "seed", "manual_seed", "print"))
_PAIRS = frozenset(("max", "min", "sort", "topk", "median", "mode", "kthvalue", "cummax", "cummin"))
_PAIR = re.compile(r"'bool' object has no attribute|return_types|'tuple'|not tuple\b")
_TUPLE_MODULES = frozenset(
    ("LSTM", "GRU", "RNN", "LSTMCell", "MultiheadAttention", "AdaptiveLogSoftmaxWithLoss")
)
_LAYER = re.compile(r"(?:torch\.)?nn\.(?P<name>[A-Z]\w+)$")
_CLASS_NAMED = re.compile(r"(?:not |got |type |')(?P<name>[A-Z]\w{1,40})\b")
_FORWARDED = frozenset(("Sequential", "ModuleList", "ModuleDict", "DataParallel", "Parameter"))
_LOSS = re.compile(r"[A-Z]\w*Loss$")
_AMBIGUOUS = re.compile(r"Boolean value of Tensor|Loss' object has no attribute|not \w+Loss\b")


def look(fault: Fault, script: Script) -> Finding | None:
    """The line that made the value, if it fits what the message says."""
    found = failed_statement(script)
    if found is None:
        return None
    frame, statement = found
    for one in (
        _tuple,
        _none,
        _keys_of_loading,
        _class_of_loss,
        _layer_of_input,
        _pair,
        _layer_pair,
    ):
        told = one(fault, script, statement, frame)
        if told is not None:
            return told
    return None


def _told(words: str, script: Script, at: Made, **values: str) -> Finding:
    place = script.place(at.file, at.line or at.node.lineno)
    return Finding(words, {**values, "where": str(place), "code": place.text}, (place,))


def _tuple(fault: Fault, script: Script, statement: ast.stmt, frame: int) -> Finding | None:
    """`self.dropout = nn.Dropout(0.5),`."""
    if "tuple" not in fault.error:
        return None
    for node in parts_of(statement):
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        for at in made_at_fault(script, node, frame):
            made = at.node
            if isinstance(made, ast.Tuple) and len(made.elts) == 1 and at.node is not node:
                line = (script.text(at.file) or "").splitlines()[made.lineno - 1]
                is_bare = made.col_offset == made.elts[0].col_offset
                if is_bare and line.split("#")[0].rstrip().endswith(","):
                    return _told("comma-tuple", script, at, name=shown(node))
    return None


def _wanted(error: str, statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions that may be the None of the message."""
    attribute = re.search(r"has no attribute '(\w+)'", error)
    for node in parts_of(statement):
        if attribute is not None:
            if isinstance(node, ast.Attribute) and node.attr == attribute[1]:
                yield node.value
        else:
            yield from _wanted_there(error, node)


def _wanted_there(error: str, node: ast.expr) -> Iterator[ast.expr]:
    if "subscriptable" in error or "item assignment" in error:
        if isinstance(node, ast.Subscript):
            yield node.value
    elif "has no len" in error:
        if isinstance(node, ast.Call) and dotted(node.func) == "len" and node.args:
            yield node.args[0]
    elif "not callable" in error:
        if isinstance(node, ast.Call):
            yield node.func
    elif isinstance(node, ast.Name | ast.Attribute | ast.Call):
        yield node


def _none(fault: Fault, script: Script, statement: ast.stmt, frame: int) -> Finding | None:
    if _NONE.search(fault.error) is None:
        return None
    for node in _wanted(fault.error, statement):
        for at in made_at_fault(script, node, frame):
            if isinstance(at.node, ast.Call):
                found = _none_of(script, at, at.node)
                if found is not None:
                    name, values, places = found
                    here = script.place(at.file, at.node)
                    values = {**values, "name": shown(node), "where": str(here), "code": here.text}
                    return Finding(name, values, (here, *places))
    return None


def _none_of(
    script: Script, at: Made, call: ast.Call
) -> tuple[str, dict[str, str], tuple[Place, ...]] | None:
    """Why a call gives None."""
    base, _, last = dotted(call.func).rpartition(".")
    if isinstance(call.func, ast.Attribute):
        last = call.func.attr
    inplace = argument(call, "inplace")
    values = {"call": shown(call), "target": base or shown(call)}
    if isinstance(inplace, ast.Constant) and inplace.value is True and last not in ("ReLU",):
        return "none-inplace", values, ()
    if isinstance(call.func, ast.Attribute) and last in _IN_PLACE and base not in ("np", "torch"):
        return "none-in-place", {**values, "function": last}, ()
    if isinstance(call.func, ast.Attribute) and last in _RETURNS_NONE:
        return "none-call", {**values, "function": last}, ()
    found = function_called(script, at.file, call)
    if found is None or found[1].decorator_list or isinstance(found[1], ast.AsyncFunctionDef):
        return None
    return _none_of_function(script, *found)


def _none_of_function(
    script: Script, file: str, function: Function
) -> tuple[str, dict[str, str], tuple[Place, ...]] | None:
    given = returns_of(function)
    has_yield = any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(function))
    is_stub = all(isinstance(one, ast.Pass | ast.Expr | ast.Raise) for one in function.body)
    if has_yield or (is_stub and len(function.body) < 2):
        return None
    defined = script.place(file, function)
    values = {"function": function.name, "defined": str(defined)}
    if not given:
        return "none-no-return", values, (defined,)
    if all(one.value is not None and not _is_none(one.value) for one in given):
        if _falls_off(function.body):
            last = script.place(file, given[-1])
            return "none-falls-off", {**values, "last": last.text}, (defined, last)
        return None
    bare = [one for one in given if one.value is None or _is_none(one.value)]
    if len(bare) == 1 and not _falls_off(function.body):
        place = script.place(file, bare[0])
        return "none-returned", {**values, "at": str(place)}, (place,)
    return None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _falls_off(body: list[ast.stmt]) -> bool:
    """Whether the end of these statements is reached without a return, as far as their form tells."""
    last = body[-1]
    if isinstance(last, ast.Return | ast.Raise | ast.Continue | ast.Break):
        return False
    if isinstance(last, ast.If):
        return not last.orelse or _falls_off(last.body) or _falls_off(last.orelse)
    if isinstance(last, ast.With):
        return _falls_off(last.body)
    if isinstance(last, ast.Try):
        handled = any(_falls_off(one.body) for one in last.handlers)
        return handled or _falls_off(last.orelse or last.body)
    if isinstance(last, ast.While):
        return not (isinstance(last.test, ast.Constant) and bool(last.test.value))
    return not isinstance(last, ast.Match)


def _keys_of_loading(
    fault: Fault, script: Script, statement: ast.stmt, frame: int
) -> Finding | None:
    """`model = model.load_state_dict(…)`."""
    if "_IncompatibleKeys" not in fault.error:
        return None
    for node in parts_of(statement):
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        for at in made_at_fault(script, node, frame):
            made = at.node
            if isinstance(made, ast.Call) and getattr(made.func, "attr", "") == "load_state_dict":
                values = {"call": shown(made), "name": shown(node)}
                return _told("keys-of-loading", script, at, **values)
    return None


def _classes_given(script: Script, at: Made) -> Iterator[tuple[str, ast.expr]]:
    """The expression, and all that the function that it calls may return."""
    yield at.file, at.node
    called = function_called(script, at.file, at.node) if isinstance(at.node, ast.Call) else None
    if called is not None:
        given = [one.value for one in returns_of(called[1]) if one.value is not None]
        yield from ((called[0], one) for one in given)


def _class_of_loss(fault: Fault, script: Script, statement: ast.stmt, frame: int) -> Finding | None:
    """`criterion = nn.MSELoss`, and `nn.MSELoss(out, y)`."""
    if _AMBIGUOUS.search(fault.error) is None:
        return None
    file = script.calls[frame].file
    calls = [
        Made(file, one, frame, script.calls[frame].line)
        for one in parts_of(statement)
        if isinstance(one, ast.Call)
    ]
    if "backward" in fault.error:
        # Of `loss = criterion(out, y)` above.
        named = [one for one in parts_of(statement) if isinstance(one, ast.Name)]
        calls += [at for one in named for at in made_at_fault(script, one, frame)]
    return next(filter(None, (_loss_called(script, at) for at in calls)), None)


def _loss_called(script: Script, call: Made) -> Finding | None:
    """A call of something that is the class of a loss."""
    if not isinstance(call.node, ast.Call):
        return None
    for at in origins(script, Made(call.file, call.node.func, call.frame, call.line)):
        for file, node in _classes_given(script, at):
            name = dotted(node)
            if not name or not _LOSS.search(name) or not _LAYER.search(name):
                continue
            if node is not call.node.func:
                return _told("loss-class", script, Made(file, node, None, node.lineno), name=name)
            if len(call.node.args) > 1:
                values = {"call": shown(call.node), "name": name}
                return _told("loss-made", script, call, **values)
    return None


def _layer_of_input(
    fault: Fault, script: Script, statement: ast.stmt, frame: int
) -> Finding | None:
    """`h = nn.GELU(h)`: a layer is made where one should be applied."""
    names = {one["name"] for one in _CLASS_NAMED.finditer(fault.error)} - _FORWARDED
    for node in parts_of(statement):
        for at in made_at_fault(script, node, frame):
            layer = _LAYER.search(dotted(at.node.func)) if isinstance(at.node, ast.Call) else None
            if layer is None or layer["name"] not in names or not isinstance(at.node, ast.Call):
                continue
            first = at.node.args[0] if at.node.args else None
            if isinstance(first, ast.Name | ast.Call):
                values = {"call": shown(at.node), "layer": dotted(at.node.func)}
                return _told("layer-of-input", script, at, **values, input=shown(first))
    return None


def _pair(fault: Fault, script: Script, statement: ast.stmt, frame: int) -> Finding | None:
    """`pred = torch.max(out, 1)`: values and indices."""
    if _PAIR.search(fault.error) is None:
        return None
    is_compared = "'bool'" in fault.error
    for whole in parts_of(statement):
        if is_compared and not isinstance(whole, ast.Compare):
            continue
        sides = [whole.left, *whole.comparators] if isinstance(whole, ast.Compare) else [whole]
        for node in sides:
            for at in made_at_fault(script, node, frame):
                if isinstance(at.node, ast.Call) and _is_pair(at.node):
                    return _told("pair-of-max", script, at, call=shown(at.node), name=shown(node))
    return None


def _is_pair(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _PAIRS:
        return False
    dim = argument(call, "dim")
    base = dotted(call.func.value)
    if base in ("np", "numpy", "df", "pd"):
        return False
    if base == "torch":
        second = call.args[1] if len(call.args) == 2 else dim
        return dim is not None or _is_number(second)
    return dim is not None or (len(call.args) == 1 and _is_number(call.args[0]))


def _is_number(node: ast.expr | None) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _layer_pair(fault: Fault, script: Script, statement: ast.stmt, frame: int) -> Finding | None:
    """`x + self.attn(x, x, x)`: the layer gives a tuple."""
    if "tuple" not in fault.error:
        return None
    for node in parts_of(statement):
        for at in made_at_fault(script, node, frame):
            if not isinstance(at.node, ast.Call):
                continue
            *_, layer = origins(script, Made(at.file, at.node.func, at.frame, at.line))
            made = layer.node
            name = dotted(made.func).rpartition(".")[2] if isinstance(made, ast.Call) else ""
            if layer.node is not at.node.func and name in _TUPLE_MODULES:
                return _told("layer-gives-pair", script, at, call=shown(at.node), layer=name)
    return None
