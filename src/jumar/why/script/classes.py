"""Classes of the script itself: attributes that nobody sets, properties that fail, methods of torch that are overridden."""

import ast
import re
from collections.abc import Iterator
from difflib import get_close_matches

from jumar.why.script.defined import attributes_set, class_named, is_module, method_of
from jumar.why.script.own import own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, class_at, dotted, own_nodes, scope_at

CAUSES = frozenset(
    ("attribute-missing", "wrong-type", "library-use", "python-error", "api-gone", "not-there")
)
_MISSING = re.compile(r"'(?P<class>\w+)' object has no attribute '(?P<name>\w+)'")
_MODES = ("train", "eval")
_OF_MODULE = frozenset(
    (
        *("parameters", "named_parameters", "modules", "children", "named_modules"),
        *("named_children", "buffers", "apply", "to", "state_dict", "load_state_dict"),
        *("train", "eval", "zero_grad", "float", "half", "cuda", "cpu", "forward"),
    )
)
_NOT_CALLABLE = re.compile(r"^\w+: '(?P<type>\w+)' object is not callable")
_TRUTH = re.compile(r"'bool' object|must be .*not bool|NoneType")
_INITS = (
    "_init_",
    "__int__",
    "__inti__",
    "__init",
    "init__",
    "_init__",
    "__init_",
    "init",
    "__ini__",
)


def look(fault: Fault, script: Script) -> Finding | None:
    """Which class of the script, and the line in it."""
    missing = _MISSING.search(fault.error)
    if missing is not None:
        return _missing(script, missing["class"], missing["name"])
    return _overridden(fault, script) or _hidden_of_module(fault, script)


def _missing(script: Script, owner: str, name: str) -> Finding | None:
    failed = script.failed
    found = None if failed is None else class_named(script, failed.file, owner)
    if found is None:
        return None
    file, node = found
    later = _set_later(script, file, node, name)
    if later is not None:
        return later
    if any(
        dotted(one).rpartition(".")[2] not in ("Module", "Dataset", "object") for one in node.bases
    ):
        # What a class of a package brings is not known.
        return None
    getter = method_of(node, name)
    if getter is not None and any(dotted(one) == "property" for one in getter.decorator_list):
        return _property(script, file, node, getter)
    if getter is not None or _has_magic(node):
        return None
    if name in attributes_set(node):
        return _init_misspelt(script, file, node, name)
    return _misspelt(script, file, node, name)


def _set_later(script: Script, file: str, owner: ast.ClassDef, name: str) -> Finding | None:
    """`super().__init__()` calls a method that needs what is set only below it."""
    init = method_of(owner, "__init__")
    given = attributes_set(owner).get(name, [])
    for call in script.calls:
        is_there = init is not None and call.file == file and call.function.endswith("__init__")
        if init is None or not is_there or not init.lineno <= call.line <= (init.end_lineno or 0):
            continue
        inside = [one for one in given if init.lineno <= one.lineno <= (init.end_lineno or 0)]
        if inside and len(inside) == len(given) and all(one.lineno > call.line for one in inside):
            places = (script.place(file, call.line), script.place(file, inside[0]))
            values = {"name": name, "class": owner.name, "code": places[0].text}
            values |= {"where": str(places[1]), "needed": str(places[0])}
            return Finding("attribute-later", values, places)
    return None


def _property(script: Script, file: str, owner: ast.ClassDef, getter: Function) -> Finding | None:
    """nn.Module says of a property that fails inside that it does not exist."""
    known = _known(owner)
    inner = [
        one
        for one in own_nodes(getter)
        if isinstance(one, ast.Attribute) and dotted(one) == f"self.{one.attr}"
    ]
    unknown = [one for one in inner if one.attr not in known]
    if len({one.attr for one in unknown}) != 1 or not is_module(owner):
        return None
    place = script.place(file, unknown[0])
    values = {
        "name": getter.name,
        "class": owner.name,
        "inner": unknown[0].attr,
        "where": str(place),
    }
    close = get_close_matches(unknown[0].attr, sorted(known - _OF_MODULE), n=1, cutoff=0.75)
    if close:
        return Finding("property-fails-close", {**values, "close": close[0]}, (place,))
    return Finding("property-fails", values, (place,))


def _init_misspelt(script: Script, file: str, owner: ast.ClassDef, name: str) -> Finding | None:
    if method_of(owner, "__init__") is not None:
        return None
    for one in owner.body:
        sets = isinstance(one, Function) and any(
            isinstance(inner, ast.Attribute) and dotted(inner) == f"self.{name}"
            for inner in ast.walk(one)
        )
        if isinstance(one, Function) and one.name in _INITS and sets:
            place = script.place(file, one)
            values = {"class": owner.name, "name": name, "method": one.name, "where": str(place)}
            return Finding("init-misspelt", values, (place,))
    return None


def _misspelt(script: Script, file: str, owner: ast.ClassDef, name: str) -> Finding | None:
    known = attributes_set(owner)
    methods = {one.name for one in owner.body if isinstance(one, Function)}
    close = get_close_matches(name, sorted({*known, *methods}), n=1, cutoff=0.8)
    if not close or close[0].strip("_0123456789") == name.strip("_0123456789"):
        # `conv3` where there is a `conv2` was forgotten, not misspelt.
        return None
    is_method = close[0] in methods
    node = method_of(owner, close[0]) if is_method else known[close[0]][0]
    if node is None:
        return None
    place = script.place(file, node)
    values = {"class": owner.name, "name": name, "close": close[0], "where": str(place)}
    return Finding("attribute-misspelt", values, (place,))


def _known(owner: ast.ClassDef) -> set[str]:
    named = {one.name for one in owner.body if isinstance(one, Function | ast.ClassDef)}
    plain = {
        inner.id
        for one in owner.body
        if isinstance(one, ast.Assign | ast.AnnAssign)
        for inner in ast.walk(one)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    }
    registered = {
        call.args[0].value
        for call in ast.walk(owner)
        if isinstance(call, ast.Call)
        and dotted(call.func).startswith("self.")
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    }
    return {*named, *plain, *registered, *attributes_set(owner), *_OF_MODULE, "training"}


def _has_magic(owner: ast.ClassDef) -> bool:
    """Attributes may come from elsewhere."""
    names = {one.name for one in owner.body if isinstance(one, Function)}
    texts = {dotted(one.func) for one in ast.walk(owner) if isinstance(one, ast.Call)}
    return bool(names & {"__getattr__", "__getattribute__"}) or bool(texts & {"setattr", "vars"})


def _overridden(fault: Fault, script: Script) -> Finding | None:
    """`eval()` calls `self.train(False)`, which here is a method of one's own."""
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    if failed is None or tree is None or len(script.calls) < 2 or not _TRUTH.search(fault.error):
        return None
    scope, owner = scope_at(tree, failed.line), class_at(tree, failed.line)
    if not isinstance(scope, Function) or owner is None or not is_module(owner):
        return None
    caller = script.calls[-2].source
    if scope.name != "train" or not re.search(r"\.(?:eval|train)\(\)", caller):
        return None
    place = script.place(failed.file, scope)
    values = {"class": owner.name, "where": str(place), "caller": caller}
    return Finding("train-overridden", values, (place,))


def _hidden_of_module(fault: Fault, script: Script) -> Finding | None:
    """`self.modules = […]` in a network."""
    if _NOT_CALLABLE.match(fault.error) is None:
        return None
    hiding = [
        (file, owner, name, statement)
        for file, owner in _networks(script)
        for name, statements in attributes_set(owner).items()
        if name in _OF_MODULE
        for statement in statements
    ]
    if len(hiding) != 1:
        return None
    file, owner, name, statement = hiding[0]
    place = script.place(file, statement)
    values = {"class": owner.name, "name": name, "where": str(place), "code": place.text}
    return Finding("module-hidden", values, (place,))


def _networks(script: Script) -> Iterator[tuple[str, ast.ClassDef]]:
    for file, tree in own_files(script):
        for node in own_nodes(tree):
            if isinstance(node, ast.ClassDef) and is_module(node):
                yield file, node
