"""Keys that were there and are not any more, or are of another type; an alarm that was left on."""

import ast
import re
from collections.abc import Sequence

from jumar.why.script.own import Own, all_nodes, called, calls_in, functions_of, own_files, text_in
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import dotted, own_nodes, shown, statement_at

CAUSES = frozenset(
    (
        *("key-missing", "configuration", "data-columns", "python-error", "refused", "checked"),
        *("not-there", "too-late", "connection", "checkpoint-fit", "not-registered"),
    )
)
_KEY = re.compile(r"KeyError: (?:'(?P<text>[^']+)'|(?P<number>-?\d+))$")


def look(fault: Fault, script: Script) -> Finding | None:
    """What the line that failed and the code around it show."""
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    statement = None if failed is None or tree is None else statement_at(tree, failed.line)
    if statement is None:
        return None
    key = _KEY.search(fault.error)
    if key is None:
        return _alarm(script)
    if key["number"] is not None:
        return _json_key(script, statement, key["number"])
    return _popped(script, statement, key["text"])


def _popped(script: Script, statement: ast.stmt, key: str) -> Finding | None:
    """`pop` of a key that a literal of the code has: an earlier call has taken it out."""
    failed = script.failed
    pops = [
        call
        for call in calls_in([statement])
        if called(call) == "pop" and len(call.args) == 1 and text_in(call.args[0]) == key
    ]
    if failed is None or len(pops) != 1:
        return None
    has = [
        (own, node)
        for own in own_files(script)
        for node in all_nodes(own.tree)
        if isinstance(node, ast.Dict) and any(text_in(one) == key for one in node.keys)
    ]
    if len(has) != 1 or not _is_called_again(script):
        return None
    where, there = script.place(failed.file, pops[0]), script.place(has[0][0].file, has[0][1])
    base = dotted(pops[0].func).rpartition(".")[0] or "it"
    values = {
        "pop": shown(pops[0]),
        "where": str(where),
        "there": str(there),
        "base": base,
        "key": key,
    }
    return Finding("key-popped", values, (where, there))


def _is_called_again(script: Script) -> bool:
    """Whether a call of the stack stands in a loop."""
    return any(
        isinstance(node, ast.For | ast.While) and node.lineno < call.line <= (node.end_lineno or 0)
        for call in script.calls
        if (tree := script.tree(call.file)) is not None
        for node in ast.walk(tree)
    )


def _json_key(script: Script, statement: ast.stmt, key: str) -> Finding | None:
    """A number is looked up in what was read from JSON, whose keys are all text."""
    files = own_files(script)
    read = _from_json(files)
    for node in ast.walk(statement):
        base = node.value if isinstance(node, ast.Subscript) else None
        while isinstance(base, ast.Subscript):
            base = base.value
        name = "" if base is None else dotted(base)
        if name in read:
            own, call = read[name]
            where = script.place(own.file, call)
            values = {"name": name, "where": str(where), "key": key}
            return Finding("json-keys", values, (where,))
    return None


def _from_json(files: Sequence[Own]) -> dict[str, tuple[Own, ast.Call]]:
    """The names that are set to what json.load gives, also through a function."""
    known = functions_of(files)
    readers = {
        name
        for name, (_, function) in known.items()
        for node in own_nodes(function)
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Call) and _reads(node.value)
    }
    return {
        dotted(target): (own, node.value)
        for own in files
        for node in all_nodes(own.tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if _reads(node.value) or called(node.value) in readers
    }


def _reads(call: ast.Call) -> bool:
    return dotted(call.func) in ("json.load", "json.loads")


def _alarm(script: Script) -> Finding | None:
    """A handler of SIGALRM raised, and nothing switches the alarm off."""
    failed = script.failed
    if failed is None:
        return None
    files = own_files(script)
    calls = [(own, call) for own in files for call in calls_in([own.tree])]
    is_handler = any(
        dotted(call.func) == "signal.signal"
        and len(call.args) == 2
        and dotted(call.args[0]).endswith("SIGALRM")
        and dotted(call.args[1]).rpartition(".")[2] == failed.function
        for _, call in calls
    )
    alarms = [(own, call) for own, call in calls if dotted(call.func) == "signal.alarm"]
    if not is_handler or len(alarms) != 1 or shown(alarms[0][1]) == "signal.alarm(0)":
        return None
    where = script.place(alarms[0][0].file, alarms[0][1])
    values = {"call": shown(alarms[0][1]), "where": str(where), "handler": failed.function}
    return Finding("alarm-on", values, (where,), "python-error")
