"""How functions of the script are called and what they return: the order and the number."""

import ast
import re
from itertools import pairwise

from jumar.why.script.defined import class_called, function_called, method_of, returns_of
from jumar.why.script.origin import Made, calls_of, failed_statement, made_at_fault, origins
from jumar.why.script.own import own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, class_at, dotted, own_nodes, scope_at, shown

CAUSES = frozenset(
    (
        *("wrong-type", "attribute-missing", "shape", "library-use", "none-value", "unpacking"),
        *("dtype", "index-range", "key-missing", "python-error", "data-broken", "autograd"),
    )
)
_COUNT = re.compile(r"(?:too many|not enough) values to unpack \(expected (?P<wanted>\d+)")
_SPLIT = "train_test_split"
_TRAIN, _TEST = (
    re.compile(r"(?:^|_)tr(?:ain)?(?:_|$)"),
    re.compile(r"(?:^|_)(?:test|te|val|valid|dev)(?:_|$)"),
)


def look(fault: Fault, script: Script) -> Finding | None:
    """Two arguments or results that changed places, or another number of results."""
    counted = _COUNT.search(fault.error)
    if counted is not None:
        return _counted(script, int(counted["wanted"]))
    return _swapped(script) or _swapped_in_making(script) or _unpacked(script)


def _swapped(script: Script) -> Finding | None:
    """`train(model, optimizer, criterion)` of `def train(model, criterion, optimizer)`."""
    for index, (caller, inner) in enumerate(pairwise(script.calls)):
        found, tree = failed_statement(script, index), script.tree(inner.file)
        function = None if tree is None else scope_at(tree, inner.line)
        if found is None or not isinstance(function, Function):
            continue
        for call in calls_of(found[1], function.name):
            told = _changed_places(script, caller.file, call, inner.file, function, function.name)
            if told is not None:
                return told
    return None


def _swapped_in_making(script: Script) -> Finding | None:
    """`Data(rows, max_len, labels)` of a class whose method failed later."""
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    owner = None if failed is None or tree is None else class_at(tree, failed.line)
    init = None if owner is None else method_of(owner, "__init__")
    if failed is None or owner is None or init is None:
        return None
    for file, other in own_files(script):
        for call in ast.walk(other):
            if isinstance(call, ast.Call) and dotted(call.func).rpartition(".")[2] == owner.name:
                told = _changed_places(script, file, call, failed.file, init, owner.name)
                if told is not None:
                    return told
    return None


def _changed_places(
    script: Script, file: str, call: ast.Call, other: str, function: Function, called: str
) -> Finding | None:
    """Two names that are each other's parameter."""
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    names = names[1:] if names[:1] in (["self"], ["cls"]) else names
    given = {
        place: one.id
        for place, one in enumerate(call.args[: len(names)])
        if isinstance(one, ast.Name)
    }
    for place, name in given.items():
        wanted = names.index(name) if name in names else place
        if wanted != place and given.get(wanted) == names[place]:
            places = (script.place(file, call), script.place(other, function))
            values = {"function": called, "a": name, "b": names[place]}
            where = {"where": str(places[0]), "order": ", ".join(names)}
            return Finding("arguments-swapped", {**values, **where}, places)
    return None


def _unpacked(script: Script) -> Finding | None:
    """`X_train, X_test, y_train, y_test = load()` of what returns another order."""
    failed = script.failed
    found = failed_statement(script)
    if failed is None or found is None:
        return None
    used = {one.id for one in ast.walk(found[1]) if isinstance(one, ast.Name)}
    seen = {call.file for call in script.calls}
    for file, tree in own_files(script):
        if file not in seen:
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            taken = _names(node.targets[0])
            told = None if len(taken) < 2 else _order(script, file, node.value, taken)
            if told is not None and used & set(taken):
                place = script.place(file, node)
                return Finding(
                    "results-swapped",
                    {"given": ", ".join(told[0]), "taken": ", ".join(taken), "where": str(place)}
                    | {"call": shown(node.value.func)},
                    (place, *told[1]),
                )
    return None


def _order(script: Script, file: str, call: ast.Call, taken: list[str]):
    if dotted(call.func).rpartition(".")[2] == _SPLIT:
        kinds = [_kind(one) for one in taken]
        is_wrong = (
            len(taken) == 4 and len(call.args) == 2 and kinds == ["train", "train", "test", "test"]
        )
        first = [taken[0], taken[2], taken[1], taken[3]]
        return (first, ()) if is_wrong else None
    found = function_called(script, file, call)
    given = [] if found is None else returns_of(found[1])
    if found is None or len(given) != 1 or not isinstance(given[0].value, ast.Tuple):
        return None
    values = given[0].value.elts
    names = [_root(one) for one in values]
    if (
        len(names) != len(taken)
        or "" in names
        or any(isinstance(one, ast.Starred) for one in values)
    ):
        return None
    place = (script.place(found[0], given[0]),)
    exact = [shown(one) for one in values]
    if all(isinstance(one, ast.Name) for one in values):
        return (names, place) if names != taken and sorted(names) == sorted(taken) else None
    roots = sorted({one.lower() for one in names}, key=len, reverse=True)
    matched = [next((root for root in roots if _starts(one, root)), "") for one in taken]
    is_same_set = sorted(matched) == sorted(one.lower() for one in names)
    is_other = matched != [one.lower() for one in names]
    return (exact, place) if len(roots) > 1 and is_same_set and is_other else None


def _starts(name: str, root: str) -> bool:
    return name.lower() == root or name.lower().startswith(f"{root}_")


def _kind(name: str) -> str:
    low = name.lower()
    return "train" if _TRAIN.search(low) else "test" if _TEST.search(low) else ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names(target: ast.expr) -> list[str]:
    elements = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    names = [one.id for one in elements if isinstance(one, ast.Name)]
    return names if len(names) == len(elements) else []


def _counted(script: Script, wanted: int) -> Finding | None:
    """A function that returns another number than is taken."""
    found = failed_statement(script)
    if found is None:
        return None
    frame, statement = found
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(value, ast.Call):
        return None
    call = script.calls[frame]
    called = function_called(script, call.file, value) or _forward(script, value, frame)
    if called is None or any(isinstance(one, ast.Yield) for one in ast.walk(called[1])):
        return None
    file, function = called
    given = returns_of(function)
    others = [one for one in given if _size(one) != wanted]
    if not others or any(one.value is None for one in given):
        return None
    place = script.place(file, others[0])
    values = {"call": shown(value.func), "function": function.name, "taken": str(wanted)}
    values |= {"where": str(place), "code": place.text}
    if len(given) == 1 and _size(given[0]) is not None:
        return Finding("results-counted", {**values, "given": str(_size(given[0]))}, (place,))
    test = _mode_test(function)
    if len(given) == 2 and len(others) == 1 and test is not None:
        return Finding(
            "results-by-mode", {**values, "test": test}, (place, script.place(file, given[0]))
        )
    return None


def _mode_test(function: Function) -> str | None:
    for node in own_nodes(function):
        if isinstance(node, ast.If) and "self.training" in ast.unparse(node.test):
            return ast.unparse(node.test)
    return None


def _size(one: ast.Return) -> int | None:
    """How many values it returns; None if that cannot be seen."""
    value = one.value
    if isinstance(value, ast.Tuple | ast.List):
        return (
            None if any(isinstance(each, ast.Starred) for each in value.elts) else len(value.elts)
        )
    return None


def _forward(script: Script, value: ast.Call, frame: int) -> tuple[str, Function] | None:
    *_, at = made_at_fault(script, value.func, frame)
    at = _plain(script, at)
    owner = class_called(script, at.file, at.node)
    method = None if owner is None else method_of(owner[1], "forward")
    return None if owner is None or method is None else (owner[0], method)


def _plain(script: Script, at: Made) -> Made:
    """The network of `Net().to(device)`."""
    for _ in range(4):
        if not isinstance(at.node, ast.Call) or not isinstance(at.node.func, ast.Attribute):
            break
        if at.node.func.attr not in ("to", "cuda", "cpu", "train", "eval", "float", "half"):
            break
        *_, at = origins(script, Made(at.file, at.node.func.value, at.frame, at.line))
    return at
