"""Where the value that failed comes from: what began it is wrong, or at least is named."""

import ast
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from jumar.why.script.ends import End, Option, end_of, trail
from jumar.why.script.origin import Made, failed_nodes
from jumar.why.script.own import all_files, all_nodes, text_in
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.settings import Setting
from jumar.why.script.tree import dotted, parents_of, shown

CAUSES = frozenset(
    (
        *("wrong-type", "number-text", "configuration", "none-value", "key-missing", "arguments"),
        *("index-range", "library-use", "python-error", "unsupported", "attribute-missing"),
        *("data-columns", "shape", "zero-division", "refused", "data-empty", "checkpoint-fit"),
        "data-broken",
    )
)
_WANTS_NUMBER = re.compile(
    r"type str\b|'str' and '(?:int|float)'|'(?:int|float)' and 'str'|non-int of type|must be real number, not str"
    r"|'str' object cannot be interpreted|must be (?:an? )?(?:int|float)\w*,? (?:but got|not) str|got str\b"
)
# The text may be meant, and the number not.
_JOINED = re.compile(r"can only concatenate str \(not \"(?:int|float)\"\) to str")
_NONE = re.compile(r"\bNoneType\b|\bnot None\b")
_KEY = re.compile(r"KeyError: (?:'(?P<text>[^'\n]{1,200})'|(?P<plain>-?\d+|True|False|None))$")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?$")
_OF_VALUES = frozenset(("wrong-type", "zero-division", "index-range", "number-text", "none-value"))
_ALIKE, _MOST_SHOWN = 0.8, 12
_MOST_ASKED = 8
_CONVERTS = frozenset(("int", "float", "str", "bool", "eval", "literal_eval", "ast.literal_eval"))
_GROWS = frozenset(("append", "extend", "insert", "add", "update", "remove", "pop", "sort"))


def look(fault: Fault, script: Script) -> Finding | None:
    """What the trace of the failing expression shows."""
    frame, nodes = failed_nodes(script)
    if not nodes:
        return None
    return (
        _key(fault, script, frame, nodes)
        or _text(fault, script, frame, nodes)
        or _none(fault, script, frame, nodes)
    )


def ends_of(
    script: Script, frame: int, nodes: Sequence[ast.expr]
) -> Iterator[tuple[ast.expr, End]]:
    """The names and entries that an expression uses, and where each began."""
    call = script.calls[frame]
    tree = script.tree(call.file)
    parents = {} if tree is None else parents_of(tree)
    for node in [one for one in nodes if _is_value(one, parents)][:_MOST_ASKED]:
        end = end_of(script, Made(call.file, node, frame, call.line))
        if end is not None:
            yield node, end


def _is_value(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> bool:
    """A whole name, attribute or entry that is read, not what is called or what another one begins with."""
    if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return False
    up = parents.get(node)
    is_begin = isinstance(up, ast.Attribute) or (isinstance(up, ast.Subscript) and up.value is node)
    is_called = isinstance(up, ast.Call) and (up.func is node or dotted(up.func) in _CONVERTS)
    return isinstance(node.ctx, ast.Load) and not is_begin and not is_called


def _text(fault: Fault, script: Script, frame: int, nodes: Sequence[ast.expr]) -> Finding | None:
    """A number is wanted, and what gives it gives text."""
    is_sure = _WANTS_NUMBER.search(fault.error) is not None
    if not is_sure and not _JOINED.search(fault.error):
        return None
    found = [
        told
        for node, end in ends_of(script, frame, nodes)
        if (told := _as_text(script, node, end)) is not None
        and (is_sure or told.name != "traced-option-text")
    ]
    # Two that are text: either may have failed.
    return found[0] if len({str(one.places[0]) for one in found}) == 1 else None


def _as_text(script: Script, node: ast.expr, end: End) -> Finding | None:
    began = end.began
    if isinstance(began, Option):
        values = {"name": shown(node), "option": began.name, "where": str(began.place)}
        if began.type in ("list", "tuple") and end.depth == 1:
            values |= {"type": began.type}
            return Finding("traced-option-list", values, (began.place,), "arguments")
        if began.type in ("", "str") and end.depth == 0:
            return Finding("traced-option-text", values, (began.place,), "arguments")
    if isinstance(began, Setting):
        elements = began.elements if end.depth == 1 else (began,) if not end.depth else ()
        one = next((one for one in elements if one.type == "str" and _NUMBER.match(one.text)), None)
        if one is not None and not (one.file.endswith(".json") and not one.is_quoted):
            place = script.place(one.file, one.line)
            values = {"name": shown(node), "key": ".".join(began.path), "value": one.text}
            values |= {"leaf": began.path[-1]}
            values |= {"where": str(place), "better": _number(one.text)}
            name = "traced-quoted" if one.is_quoted else "traced-power"
            return Finding(name, values, (place,), "configuration")
    return None


def _number(text: str) -> str:
    """How YAML takes it for a number."""
    front, sign, power = text.lower().partition("e")
    if not sign:
        return text
    return f"{front if '.' in front else front + '.0'}e{power if power[0] in '+-' else '+' + power}"


def _none(fault: Fault, script: Script, frame: int, nodes: Sequence[ast.expr]) -> Finding | None:
    """The only value in it that is None where nothing is given."""
    if not _NONE.search(fault.error):
        return None
    found: list[Finding] = []
    for node, end in ends_of(script, frame, nodes):
        began = end.began
        if end.depth:
            continue
        if isinstance(began, Option) and not began.is_required:
            if began.default is None or shown(began.default) == "None":
                values = {"option": began.name, "dest": shown(node), "where": str(began.place)}
                found.append(Finding("option-not-given", values, (began.place,), "arguments"))
        elif isinstance(began, Setting) and began.type == "null":
            place = script.place(began.file, began.line)
            values = {"name": shown(node), "key": ".".join(began.path), "where": str(place)}
            found.append(Finding("traced-null", values, (place,), "configuration"))
    return found[0] if len(found) == 1 else None


def beside(fault: Fault, script: Script) -> Finding | None:
    """The only value of the failing part that comes from elsewhere: said with the log's own answer."""
    frame, nodes = failed_nodes(script)
    if not nodes or fault.cause not in _OF_VALUES or not script.calls[frame].part:
        return None
    found = [one for one in ends_of(script, frame, nodes) if not isinstance(one[1].began, Made)]
    if len(found) != 1:
        return None
    node, end = found[0]
    values = {"name": shown(node)}
    if isinstance(end.began, Option) and end.steps:
        values |= {"option": end.began.name, "where": str(end.began.place)}
        return Finding("value-of-option", values, (end.began.place,), is_beside=True)
    if isinstance(end.began, Setting) and end.began.text:
        place = script.place(end.began.file, end.began.line)
        values |= {"key": ".".join(end.began.path), "where": str(place)}
        values |= {"value": f"`{end.began.text}`"}
        return Finding("value-of-setting", values, (place,), is_beside=True)
    return None


def _key(fault: Fault, script: Script, frame: int, nodes: Sequence[ast.expr]) -> Finding | None:
    """A key that is not among those of a table, where these are written in the code or in a settings file."""
    key = _KEY.search(fault.error)
    subscripts = [one for one in nodes if isinstance(one, ast.Subscript)]
    if key is None:
        return None
    call = script.calls[frame]
    for node in subscripts:
        table = Made(call.file, node.value, frame, call.line)
        made = _made_from(script, table)
        end = None if made is None or _is_grown(script, made) else end_of(script, made)
        told = None if end is None else _not_among(script, node, key, end)
        if told is not None:
            return told
    return None


def _made_from(script: Script, table: Made) -> Made | None:
    """The list of whose entries a table's keys are made: `{c: i for i, c in enumerate(classes)}`, `dict(zip(classes, …))`."""
    at = table
    for link in trail(script, table):
        at = link.made
        if link.depth:
            return None
    node = at.node
    if isinstance(node, ast.Call) and dotted(node.func) == "dict" and len(node.args) == 1:
        zipped = node.args[0]
        if isinstance(zipped, ast.Call) and dotted(zipped.func) == "zip" and zipped.args:
            return Made(at.file, zipped.args[0], at.frame, at.line)
    if not isinstance(node, ast.DictComp) or len(node.generators) != 1:
        return None
    one = node.generators[0]
    over, target = one.iter, one.target
    if isinstance(over, ast.Call) and dotted(over.func) == "enumerate" and over.args:
        over = over.args[0]
        target = target.elts[-1] if isinstance(target, ast.Tuple) else target
    is_plain = isinstance(node.key, ast.Name) and dotted(target) == node.key.id
    return Made(at.file, over, at.frame, at.line) if is_plain and not one.ifs else None


def _is_grown(script: Script, made: Made) -> bool:
    """Whether a list gets more entries by one of the names under which the code has it."""
    names = {_last_name(link.made.node) for link in trail(script, made)} - {""}
    for _, tree in all_files(script):
        for node in all_nodes(tree):
            on = node.target if isinstance(node, ast.AugAssign) else None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                on = node.func.value if node.func.attr in _GROWS else None
            if on is not None and _last_name(on) in names:
                return True
    return False


def _last_name(node: ast.expr) -> str:
    """`classes` of `data.classes` and of `data["classes"]`."""
    if isinstance(node, ast.Subscript):
        return text_in(node.slice) or ""
    return dotted(node).rpartition(".")[2]


def _not_among(script: Script, node: ast.Subscript, key: re.Match[str], end: End) -> Finding | None:
    values = {"table": shown(node.value), "key": key["text"] or key["plain"]}
    if isinstance(end.began, Setting):
        entries = end.began.elements or end.began.keys
        place = script.place(end.began.file, entries[0].line if entries else end.began.line)
        switch = next((one for one in entries if _is_switch(one, key)), None)
        if switch is not None:
            place = script.place(switch.file, switch.line)
            values |= {"word": switch.text, "where": str(place), "bool": _bool(switch)}
            return Finding("traced-switch", values, (place,), "configuration")
        texts = {one.text: one.type for one in entries}
        if texts.get(values["key"]) in ("int", "float") and key["text"] is not None:
            values |= {"where": str(place), "type": texts[values["key"]]}
            return Finding("traced-number", values, (place,), "configuration")
        names = [one.text for one in entries if one.type == "str"]
        is_whole = len(names) == len(entries)
    elif isinstance(end.began, Made):
        whole = end.began.node
        parts = whole.elts if isinstance(whole, ast.List | ast.Tuple | ast.Set) else []
        names = [text_in(one) or "" for one in parts]
        is_whole = all(names) and bool(names)
        place = script.place(end.began.file, whole)
    else:
        return None
    if not is_whole or not names or key["text"] is None or key["text"] in names or end.depth:
        return None
    return _other_name(values, names, Finding("", {"where": str(place)}, (place,)))


def _other_name(values: dict[str, str], names: list[str], at: Finding) -> Finding:
    key = values["key"]
    listed = ", ".join(names[:_MOST_SHOWN]) + (", …" if len(names) > _MOST_SHOWN else "")
    values = {**values, **at.values, "keys": listed}
    blank = [one for one in names if one == key.strip()]
    if blank:
        return Finding("traced-blank", {**values, "close": blank[0]}, at.places)
    other = [one for one in names if one.lower() == key.lower()]
    other = other or get_close_matches(key, names, 1, _ALIKE)
    if other:
        return Finding("traced-misspelt", {**values, "close": other[0]}, at.places)
    return Finding("traced-not-among", values, at.places)


def _is_switch(one: Setting, key: re.Match[str]) -> bool:
    """`no` in the file, looked up as the word that stands there."""
    is_word = one.type == "bool" and one.text.lower() not in ("true", "false")
    return is_word and not one.file.endswith(".json") and one.text == key["text"]


def _bool(one: Setting) -> str:
    return str(one.text.lower() in ("yes", "on", "true"))
