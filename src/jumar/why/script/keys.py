"""Keys and options that a script reads under another name than it gave them."""

import ast
import re
from difflib import get_close_matches

from jumar.why.script.origin import Made, failed_statement, made_at_fault, origins, parts_of
from jumar.why.script.own import own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import dotted, parents_of, shown

CAUSES = frozenset(
    (
        "key-missing",
        "data-broken",
        "checkpoint-fit",
        "configuration",
        "arguments",
        "data-columns",
        "name-missing",
    )
)
_KEY = re.compile(r"KeyError: '(?P<key>[^'\n]{1,200})'")
_OPTION = re.compile(
    r"'Namespace' object has no attribute '(?P<name>\w+)'|^NameError: name '(?P<part>\w+)'"
)
_MOST_SHOWN = 12
_CHANGES = ("update", "pop", "setdefault")


def look(fault: Fault, script: Script) -> Finding | None:
    """Where the keys or the options are made."""
    option, key = _OPTION.search(fault.error), _KEY.search(fault.error)
    if option is not None:
        return _dashed(script) or (_option(script, option["name"]) if option["name"] else None)
    found = failed_statement(script)
    if key is None or found is None:
        return None
    frame, statement = found
    for node in parts_of(statement):
        if not isinstance(node, ast.Subscript):
            continue
        *_, at = made_at_fault(script, node.value, frame)
        told = _of_lines(script, at, node, key["key"]) or _of_literal(script, at, node, key["key"])
        told = told or _of_saved(script, at, node, key["key"])
        if told is not None:
            return told
    return None


def _of_lines(script: Script, at: Made, node: ast.Subscript, key: str) -> Finding | None:
    """`{c: i for i, c in enumerate(lines)}` of lines that end in a newline."""
    if not isinstance(at.node, ast.DictComp) or not isinstance(at.node.key, ast.Name):
        return None
    given = at.node.generators[0].iter
    if isinstance(given, ast.Call) and dotted(given.func) == "enumerate" and given.args:
        given = given.args[0]
    *_, made = origins(script, Made(at.file, given, at.frame, at.line or node.lineno))
    lines = made.node
    is_read = isinstance(lines, ast.Call) and (
        getattr(lines.func, "attr", "") == "readlines"
        or (dotted(lines.func) in ("list", "open") and "open(" in shown(lines))
    )
    if not is_read:
        return None
    place = script.place(made.file, lines)
    values = {"key": key, "table": shown(node.value), "code": shown(lines), "where": str(place)}
    return Finding("lines-with-newline", values, (place,))


def _of_literal(script: Script, at: Made, node: ast.Subscript, key: str) -> Finding | None:
    """A dict that the script writes out itself."""
    keys = _literal_keys(at.node)
    if keys is None or key in keys or _is_extended(script, node):
        return None
    place = script.place(at.file, at.node)
    values = {"key": key, "table": shown(node.value), "keys": _listed(keys), "where": str(place)}
    close = [one for one in keys if key in one or one in key]
    close = get_close_matches(key, keys, n=1, cutoff=0.7) or (close if len(close) == 1 else [])
    if close:
        return Finding("key-misspelt", {**values, "close": close[0]}, (place,))
    return Finding("key-not-given", values, (place,))


def _is_extended(script: Script, node: ast.Subscript) -> bool:
    """Whether entries are added to a dict of this name anywhere."""
    name = dotted(node.value).rpartition(".")[2]
    for _, tree in own_files(script):
        for one in ast.walk(tree):
            if _extends(one, name):
                return True
    return False


def _extends(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        return dotted(node.value).rpartition(".")[2] == name
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return is_call and getattr(getattr(node, "func", None), "attr", "") in _CHANGES


def _literal_keys(node: ast.expr) -> list[str] | None:
    if isinstance(node, ast.Dict):
        keys = [
            one.value
            for one in node.keys
            if isinstance(one, ast.Constant) and isinstance(one.value, str)
        ]
        return keys if len(keys) == len(node.keys) else None
    if isinstance(node, ast.Call) and dotted(node.func) == "dict" and not node.args:
        names = [one.arg for one in node.keywords if one.arg is not None]
        return names if len(names) == len(node.keywords) else None
    return None


def _of_saved(script: Script, at: Made, node: ast.Subscript, key: str) -> Finding | None:
    """What torch.load() gives has the keys that torch.save() wrote in the same script."""
    if not isinstance(at.node, ast.Call) or dotted(at.node.func) not in (
        "torch.load",
        "pickle.load",
        "joblib.load",
    ):
        return None
    module = dotted(at.node.func).partition(".")[0]
    saved: list[tuple[str, ast.Call, list[str]]] = []
    for file, tree in own_files(script):
        for call in ast.walk(tree):
            is_saved = isinstance(call, ast.Call) and dotted(call.func) in (
                f"{module}.save",
                f"{module}.dump",
            )
            if not is_saved or not isinstance(call, ast.Call) or not call.args:
                continue
            *_, made = origins(script, Made(file, call.args[0], None, call.lineno))
            keys = _literal_keys(made.node)
            if keys is None:
                return None
            saved.append((file, call, keys))
    if not saved or any(key in keys for _, _, keys in saved) or _is_extended(script, node):
        return None
    file, call, keys = saved[0]
    place = script.place(file, call)
    values = {"key": key, "table": shown(node.value), "keys": _listed(keys), "where": str(place)}
    return Finding("key-not-saved", values, (place,))


def _listed(keys: list[str]) -> str:
    shown_keys = ", ".join(keys[:_MOST_SHOWN])
    return f"{shown_keys}, …" if len(keys) > _MOST_SHOWN else shown_keys


def _options(script: Script) -> dict[str, tuple[str, ast.Call]]:
    """The options of argparse by the names of their attributes."""
    found: dict[str, tuple[str, ast.Call]] = {}
    for file, tree in own_files(script):
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or getattr(call.func, "attr", "") != "add_argument":
                continue
            names = [
                one.value
                for one in call.args
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
            long = [one for one in names if one.startswith("--")] or names
            dest = [one.value for one in call.keywords if one.arg == "dest"]
            if long and not dest:
                found[long[0].lstrip("-").replace("-", "_")] = (file, call)
    return found


def _dashed(script: Script) -> Finding | None:
    """`args.batch-size` is a subtraction."""
    found = failed_statement(script)
    if found is None or script.failed is None:
        return None
    options = _options(script)
    parents = parents_of(found[1])
    for node in parts_of(found[1]):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
            continue
        if isinstance(parents.get(node), ast.BinOp):
            continue
        name = shown(node).replace(" - ", "_").rpartition(".")[2]
        if isinstance(node.right, ast.Name) and name in options and "." in shown(node.left):
            file, call = options[name]
            written = shown(node).replace(" - ", "-")
            right = f"{shown(node).rpartition('.')[0]}.{name}"
            place = script.place(file, call)
            values = {"written": written, "right": right, "where": str(place)}
            return Finding("option-dashed", values, (place,))
    return None


def _option(script: Script, name: str) -> Finding | None:
    options = _options(script)
    found = failed_statement(script)
    if name in options or not options or found is None:
        return None
    pool = sorted(options)
    close = get_close_matches(name, pool, n=1, cutoff=0.75)
    same = [
        one
        for one in pool
        if set(name.split("_")) & set(one.split("_")) and (name in one or one in name)
    ]
    close = close or (same if len(same) == 1 else [])
    if not close:
        return None
    file, call = options[close[0]]
    place = script.place(file, call)
    values = {"name": name, "close": close[0], "where": str(place)}
    return Finding("option-misspelt", values, (place,))
