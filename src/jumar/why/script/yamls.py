"""Values of a YAML file that PyYAML reads as something else than they look like."""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jumar.why.script.own import own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import statement_at

CAUSES = frozenset(
    (
        *("wrong-type", "key-missing", "configuration", "number-text", "file-missing", "not-there"),
        *(
            "arguments",
            "unpacking",
            "unsupported",
            "library-use",
            "attribute-missing",
            "hub-access",
        ),
        *("none-value", "data-columns", "python-error", "refused", "checkpoint-broken"),
    )
)
_ENTRY = re.compile(
    r"^(?P<indent> *)(?:- )?['\"]?(?P<key>[\w.-]+)['\"]?: +(?P<value>[^#\n]*?)\s*(?:#.*)?$"
)
_SECTION = re.compile(r"^(?P<indent> *)(?P<key>[\w.-]+):\s*(?:#.*)?$")
# Without a point, or without a sign behind the e, PyYAML takes them for text.
_POWER = re.compile(r"[-+]?(?:\d+[eE][-+]?\d+|\d+\.\d*[eE]\d+)$")
_TUPLE = re.compile(r"\(.*,.*\)$")
_QUOTED = re.compile(r"(['\"])-?\d+(?:\.\d+)?\1$")
_ALIKE = 0.8
_SWITCH = re.compile(r"(?:[Yy]es|[Nn]o|[Oo]n|[Oo]ff|YES|NO|ON|OFF)$")
_IS_TEXT = re.compile(r"\bstr\b|non-int of type|string|not enough values|too many values")
_IS_SWITCH = re.compile(r"KeyError: (?:True|False)\b|\bbool\b")
_IS_NONE = re.compile(r"(?:^|[\s'\"/:])None['\"/]")
_LOADS = re.compile(r"\byaml\.(?:safe_load|load|full_load|unsafe_load)\(")
_MOST_FILES = 20


@dataclass(frozen=True, slots=True)
class _Entry:
    file: str
    line: int
    key: str
    value: str
    parent: str


def look(fault: Fault, script: Script) -> Finding | None:
    """The entry that the fault comes from."""
    if script.failed is None or not _reads_yaml(script):
        return None
    entries = list(_entries(script))
    tests: Sequence[tuple[str, re.Pattern[str], Callable[[str], object]]] = (
        ("yaml-power", _IS_TEXT, _POWER.match),
        ("yaml-tuple", _IS_TEXT, _TUPLE.match),
        ("yaml-quoted", _IS_TEXT, _QUOTED.match),
        ("yaml-switch", _IS_SWITCH, _SWITCH.match),
        ("yaml-none", _IS_NONE, lambda value: value == "None"),
    )
    for name, error, value in tests:
        if error.search(fault.error):
            meant = _meant([one for one in entries if value(one.value)], fault, script)
            if meant:
                return _told(name, meant, script)
    return _elsewhere(fault, script, entries) or _misspelt(fault, script, entries)


def _reads_yaml(script: Script) -> bool:
    return any(_LOADS.search(script.text(own.file) or "") for own in own_files(script))


def _entries(script: Script) -> Iterator[_Entry]:
    files = [name for name in script.names if name.endswith((".yaml", ".yml"))]
    for name in files[:_MOST_FILES]:
        above: list[tuple[int, str]] = []
        for number, line in enumerate((script.text(name) or "").splitlines(), 1):
            section, entry = _SECTION.match(line), _ENTRY.match(line)
            found = section or entry
            if found is None:
                continue
            indent = len(found["indent"])
            above = [one for one in above if one[0] < indent]
            if entry is not None and section is None:
                parent = ".".join(key for _, key in above)
                yield _Entry(name, number, entry["key"], entry["value"], parent)
            above.append((indent, found["key"]))


def _meant(found: Sequence[_Entry], fault: Fault, script: Script) -> Sequence[_Entry]:
    """Of entries that look so, those that the message or the stack's lines name; the only one where none is named."""
    text = "\n".join((fault.error, *fault.values.values(), *_lines(script)))
    code = "\n".join(script.text(own.file) or "" for own in own_files(script))
    left = [one for one in found if not _is_converted(one.key, code)]
    named = [one for one in left if re.search(rf"\b{re.escape(one.key)}\b", text)]
    if named:
        beside = {(one.file, one.parent) for one in named}
        # The next would fail for the same.
        more = [one for one in left if (one.file, one.parent) in beside and one not in named]
        return [*named, *more][:3]
    return (
        left if len(left) == 1 or (len({one.file for one in left}) == 1 and len(left) <= 2) else ()
    )


def _is_converted(key: str, code: str) -> bool:
    return bool(
        re.search(rf"\b(?:float|int|eval|literal_eval)\([^()\n]*\b{re.escape(key)}\b", code)
    )


def _lines(script: Script) -> Iterator[str]:
    for call in script.calls:
        tree = script.tree(call.file)
        statement = None if tree is None else statement_at(tree, call.line)
        end = getattr(statement, "end_lineno", call.line) or call.line
        lines = (script.text(call.file) or "").splitlines()
        yield from lines[call.line - 1 : min(end, call.line + 12)]


def _told(name: str, entries: Sequence[_Entry], script: Script) -> Finding:
    places = tuple(script.place(one.file, one.line) for one in entries)
    first = entries[0]
    values = {
        "entries": ", ".join(f"`{one.key}: {one.value}`" for one in entries),
        "where": str(places[0]),
        "key": first.key,
        "value": first.value,
        "better": _better(first.value),
    }
    return Finding(name, values, places, "configuration")


def _better(value: str) -> str:
    """How it is written so that PyYAML reads what is meant."""
    if _POWER.match(value):
        front, power = re.split("[eE]", value)
        front = front if "." in front else f"{front}.0"
        return f"{front}e{power if power[0] in '+-' else f'+{power}'}"
    if _QUOTED.match(value):
        return value[1:-1]
    return f"[{value[1:-1].strip()}]" if _TUPLE.match(value) else f'"{value}"'


def _misspelt(fault: Fault, script: Script, entries: Sequence[_Entry]) -> Finding | None:
    """A key that is not in any file, where one is almost the same."""
    missed = re.search(r"^KeyError: '([\w-]+)'|has no attribute '(\w+)'", fault.error)
    key = "" if missed is None else missed[1] or missed[2]
    keys = {one.key: one for one in entries}
    alike = difflib.get_close_matches(key, list(keys), 2, _ALIKE)
    code = "\n".join(script.text(own.file) or "" for own in own_files(script))
    if key in keys or len(alike) != 1 or re.search(rf"\b{re.escape(alike[0])}\b", code):
        return None
    entry = keys[alike[0]]
    place = script.place(entry.file, entry.line)
    values = {"key": key, "found": entry.key, "where": str(place)}
    return Finding("yaml-misspelt", values, (place,), "configuration")


def _elsewhere(fault: Fault, script: Script, entries: Sequence[_Entry]) -> Finding | None:
    """A key that is looked for in one section and stands in another."""
    missed = re.fullmatch(r"KeyError: '([\w.-]+)'", fault.error)
    same = [] if missed is None else [one for one in entries if one.key == missed[1]]
    if len(same) != 1 or missed is None:
        return None
    place = script.place(same[0].file, same[0].line)
    values = {"key": missed[1], "where": str(place), "section": same[0].parent}
    name = "yaml-inside" if same[0].parent else "yaml-outside"
    return Finding(name, values, (place,), is_beside=True)
