"""Slips around classes and data that the message does not name: overwritten names, layers in lists, batches that are None or dicts."""

import ast
import re
from collections.abc import Iterator

from jumar.why.script.defined import (
    attributes_set,
    class_called,
    class_named,
    is_module,
    method_of,
    returns_of,
)
from jumar.why.script.origin import Made, failed_statement, made_at_fault, origins, parts_of
from jumar.why.script.own import own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import (
    Function,
    argument,
    binders,
    class_at,
    dotted,
    own_nodes,
    scope_at,
    shown,
)

CAUSES = frozenset(
    (
        *("attribute-missing", "wrong-type", "library-use", "dtype", "other-device", "none-value"),
        *("configuration", "data-columns", "key-missing", "data-pipeline", "arguments", "api-gone"),
        *("data-broken", "python-error", "unpacking"),
    )
)
_OF_TYPE = re.compile(r"'(?P<type>\w+)' object (?:has no attribute|is not)")
_TAKES = re.compile(
    r"(?P<class>\w+)\.(?P<method>\w+)\(\) takes (?P<n>\d+) positional arguments? but"
)
_LAYER = re.compile(r"(?:^|\.)nn\.[A-Z]\w+$")
_UNREACHED = re.compile(
    r"same dtype|same device|but got (?:Double|Half|BFloat16)|empty parameter list|should be the same|expected scalar type"
)
_KEY = re.compile(r"KeyError: ['\"](?P<key>[^'\"\n]{1,200})['\"]")
_NONE = re.compile(r"NoneType")


def look(fault: Fault, script: Script) -> Finding | None:
    """The line of the slip."""
    return (
        _without_self(fault, script)
        or _overwritten(fault, script)
        or _in_a_list(fault, script)
        or _dropped(fault, script)
        or _of_loader(fault, script)
    )


def _without_self(fault: Fault, script: Script) -> Finding | None:
    """`def forward(x):` in a class."""
    takes = _TAKES.search(fault.error)
    failed = script.failed
    if takes is None or failed is None:
        return None
    found = class_named(script, failed.file, takes["class"])
    method = None if found is None else method_of(found[1], takes["method"])
    if found is None or method is None or method.decorator_list:
        return None
    names = [one.arg for one in (*method.args.posonlyargs, *method.args.args)]
    if len(names) != int(takes["n"]) or names[:1] in (["self"], ["cls"], ["_"], ["this"]):
        return None
    place = script.place(found[0], method)
    given = ", ".join(["self", *names])
    values = {"method": method.name, "class": takes["class"], "where": str(place), "given": given}
    return Finding("self-forgotten", values, (place,))


def _overwritten(fault: Fault, script: Script) -> Finding | None:
    """`optimizer = StepLR(optimizer)`: the name was something else before."""
    kind, found = _OF_TYPE.search(fault.error), failed_statement(script)
    if kind is None or found is None:
        return None
    frame, statement = found
    call = script.calls[frame]
    tree = script.tree(call.file)
    for node in parts_of(statement):
        if tree is None or not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        at = next(iter(list(made_at_fault(script, node, frame))[1:2]), None)
        made = at.node if at is not None else None
        if at is None or at.file != call.file or not isinstance(made, ast.Call):
            continue
        is_kind = dotted(made.func).rpartition(".")[2] == kind["type"]
        bound = [one for one in binders(scope_at(tree, at.line), node.id) if _line(one) < at.line]
        if is_kind and bound and node.id in {dotted(one) for one in made.args}:
            places = (script.place(at.file, bound[-1]), script.place(at.file, at.line))
            values = {"name": node.id, "type": kind["type"], "first": places[0].text}
            values |= {"where": str(places[1]), "code": places[1].text}
            return Finding("name-overwritten", values, places)
    return None


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _in_a_list(fault: Fault, script: Script) -> Finding | None:
    """`self.experts = [nn.Linear(…), …]`: no parts of the network."""
    if _UNREACHED.search(fault.error) is None or script.failed is None:
        return None
    tree = script.tree(script.failed.file)
    here = None if tree is None else class_at(tree, script.failed.line)
    is_all = "empty parameter list" in fault.error
    owners = [(script.failed.file, here)] if here is not None and not is_all else _networks(script)
    for file, owner in owners:
        if not is_module(owner):
            continue
        for name, statements in attributes_set(owner).items():
            for one in statements:
                value = one.value if isinstance(one, ast.Assign) else None
                if _has_layers(value) or (_is_empty(value) and _is_filled(owner, name)):
                    place = script.place(file, one)
                    values = {"name": name, "class": owner.name, "where": str(place)}
                    return Finding("layers-in-list", values, (place,))
    return None


def _networks(script: Script) -> Iterator[tuple[str, ast.ClassDef]]:
    for file, tree in own_files(script):
        yield from ((file, one) for one in ast.walk(tree) if isinstance(one, ast.ClassDef))


def _is_layer(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _LAYER.search(dotted(node.func)) is not None


def _has_layers(value: ast.expr | None) -> bool:
    if isinstance(value, ast.ListComp):
        return _is_layer(value.elt)
    if isinstance(value, ast.Dict):
        return bool(value.values) and all(_is_layer(one) for one in value.values)
    is_list = isinstance(value, ast.List | ast.Tuple)
    return is_list and bool(value.elts) and all(_is_layer(one) for one in value.elts)


def _is_empty(value: ast.expr | None) -> bool:
    return isinstance(value, ast.List) and not value.elts


def _is_filled(owner: ast.ClassDef, name: str) -> bool:
    return any(
        isinstance(one, ast.Call)
        and dotted(one.func) == f"self.{name}.append"
        and len(one.args) == 1
        and _is_layer(one.args[0])
        for one in ast.walk(owner)
    )


def _dropped(fault: Fault, script: Script) -> Finding | None:
    """A column that was dropped in place, or popped, and is read afterwards."""
    key = _KEY.search(fault.error)
    if key is None:
        return None
    found = [
        (file, node)
        for file, tree in own_files(script)
        for node in ast.walk(tree)
        if _drops(node, key["key"])
    ]
    if len(found) != 1:
        return None
    file, node = found[0]
    place = script.place(file, node)
    values = {"key": key["key"], "code": shown(node), "where": str(place)}
    return Finding("column-dropped", values, (place,))


def _drops(node: ast.AST, key: str) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    inplace = argument(node, "inplace")
    is_in_place = isinstance(inplace, ast.Constant) and inplace.value is True
    if node.func.attr == "pop" and len(node.args) == 1:
        return isinstance(node.args[0], ast.Constant) and node.args[0].value == key
    given = [
        one
        for value in (*node.args, argument(node, "columns"))
        for one in ast.walk(value or node.func)
    ]
    names = [one.value for one in given if isinstance(one, ast.Constant)]
    return node.func.attr == "drop" and is_in_place and key in names


def _of_loader(fault: Fault, script: Script) -> Finding | None:
    """What the data set or its collate_fn gives, where the loop over a DataLoader takes it apart."""
    found = failed_statement(script)
    if found is None:
        return None
    is_none = _NONE.search(fault.error) is not None
    for loader in _loaders(script, *found):
        if not isinstance(loader.node, ast.Call):
            continue
        if is_none:
            told = _no_result(script, loader)
        else:
            told = _dict_taken_apart(fault, script, loader, loader.node)
        if told is not None:
            return told
    return None


def _loaders(script: Script, frame: int, statement: ast.stmt) -> Iterator[Made]:
    """The DataLoaders that are looped over by the failed statement, or around it."""
    call = script.calls[frame]
    tree = script.tree(call.file)
    scope = None if tree is None else scope_at(tree, call.line)
    loops = [
        one
        for one in (own_nodes(scope) if scope is not None else ())
        if isinstance(one, ast.For) and one.lineno <= call.line <= (one.end_lineno or 0)
    ]
    for loop in loops:
        for node in ast.walk(loop.iter):
            if isinstance(node, ast.Name | ast.Call | ast.Attribute):
                *_, at = origins(script, Made(call.file, node, frame, loop.lineno))
                made = at.node
                if isinstance(made, ast.Call) and dotted(made.func).endswith("DataLoader"):
                    yield at


def _no_result(script: Script, loader: Made) -> Finding | None:
    call = loader.node if isinstance(loader.node, ast.Call) else None
    given = None if call is None else argument(call, "collate_fn")
    tree = script.tree(loader.file)
    functions = [
        (loader.file, one)
        for one in (ast.walk(tree) if tree is not None else ())
        if isinstance(one, Function) and given is not None and one.name == dotted(given)
    ]
    owner = None if call is None else _data_set(script, loader, call)
    method = None if owner is None else method_of(owner[1], "__getitem__")
    if owner is not None and method is not None:
        functions.append((owner[0], method))
    for file, function in functions:
        if not any(one.value is not None for one in returns_of(function)):
            place = script.place(file, function)
            values = {"function": function.name, "where": str(place)}
            return Finding("batch-not-returned", values, (place,))
    return None


def _data_set(script: Script, loader: Made, call: ast.Call) -> tuple[str, ast.ClassDef] | None:
    given = argument(call, "dataset", 0)
    if given is None:
        return None
    *_, at = origins(script, Made(loader.file, given, loader.frame, loader.line))
    return class_called(script, at.file, at.node)


def _dict_taken_apart(fault: Fault, script: Script, loader: Made, call: ast.Call) -> Finding | None:
    """`for image, label in loader` of a data set that gives dicts: these are their keys."""
    if ("'str'" not in fault.error and "not str" not in fault.error) or argument(
        call, "collate_fn"
    ):
        return None
    owner = _data_set(script, loader, call)
    method = None if owner is None else method_of(owner[1], "__getitem__")
    given = [] if method is None else returns_of(method)
    if owner is None or len(given) != 1 or given[0].value is None or method is None:
        return None
    *_, made = origins(script, Made(owner[0], given[0].value, None, given[0].lineno))
    if not isinstance(made.node, ast.Dict):
        return None
    place = script.place(owner[0], given[0])
    keys = [shown(one) for one in made.node.keys if one is not None]
    return Finding("batch-is-dict", {"keys": ", ".join(keys), "where": str(place)}, (place,))
