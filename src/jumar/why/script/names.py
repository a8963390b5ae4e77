"""A name that is not known where it is used, because it belongs to another function or to the object."""

import ast
import re

from jumar.why.script.defined import attributes_set
from jumar.why.script.origin import failed_statement, parts_of
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, binders, class_at, dotted, shown

CAUSES = frozenset(("name-missing", "dtype", "other-device", "shape"))
_UNKNOWN = re.compile(r"^NameError: name '(?P<name>\w+)' is not defined")
_COPIES = frozenset(
    (
        *("double", "float", "long", "half", "to", "cuda", "cpu", "view", "reshape", "permute"),
        *("transpose", "squeeze", "unsqueeze", "flatten", "astype", "type", "contiguous", "expand"),
    )
)


def look(fault: Fault, script: Script) -> Finding | None:
    """Where the name is given, or the line whose result is thrown away."""
    unknown = _UNKNOWN.match(fault.error)
    if unknown is not None:
        return _elsewhere(script, unknown["name"])
    return None if fault.cause == "name-missing" else _discarded(script)


def _elsewhere(script: Script, name: str) -> Finding | None:
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    if failed is None or tree is None or binders(tree, name):
        return None
    owner = class_at(tree, failed.line)
    own = {} if owner is None else attributes_set(owner)
    methods = [] if owner is None else [one for one in owner.body if isinstance(one, Function)]
    given = [*own.get(name, []), *(one for one in methods if one.name == name)]
    if given:
        place = script.place(failed.file, given[0])
        return Finding("name-of-object", {"name": name, "where": str(place)}, (place,))
    functions = [
        (one, binders(one, name)[0])
        for one in ast.walk(tree)
        if isinstance(one, Function) and binders(one, name)
    ]
    if len(functions) != 1:
        return None
    function, first = functions[0]
    if function.lineno <= failed.line <= (function.end_lineno or 0):
        return None
    place = script.place(failed.file, first)
    values = {"name": name, "function": function.name, "where": str(place)}
    return Finding("name-of-function", values, (place,))


def _discarded(script: Script) -> Finding | None:
    """`x.double()` as a statement."""
    found, failed = failed_statement(script), script.failed
    tree = None if failed is None else script.tree(failed.file)
    if found is None or failed is None or tree is None:
        return None
    used = {
        one.id
        for call in parts_of(found[1])
        if isinstance(call, ast.Call)
        for one in call.args
        if isinstance(one, ast.Name)
    }
    # Networks are changed in place.
    called = {dotted(one.func) for one in ast.walk(tree) if isinstance(one, ast.Call)}
    for node in ast.walk(tree):
        call = node.value if isinstance(node, ast.Expr) else None
        method = call.func if isinstance(call, ast.Call) else None
        if not isinstance(method, ast.Attribute) or call is None or method.attr not in _COPIES:
            continue
        name = dotted(method.value)
        if name in used - called and call.lineno < failed.line:
            place = script.place(failed.file, call)
            values = {"name": name, "code": shown(call), "where": str(place)}
            return Finding("result-discarded", values, (place,))
    return None
