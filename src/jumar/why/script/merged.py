"""Settings of several files of which the later ones replace whole sections of the earlier ones."""

import ast
import re
from collections.abc import Iterator

from jumar.why.script.origin import Made, failed_nodes, origins
from jumar.why.script.own import Own, all_nodes, called, calls_in, own_files, text_in
from jumar.why.script.reading import Fault, Finding, Place, Script
from jumar.why.script.settings import Setting, settings_at
from jumar.why.script.tree import dotted, shown

CAUSES = frozenset(("key-missing", "configuration", "attribute-missing", "data-columns"))
_KEY = re.compile(r"^KeyError: '(?P<key>[\w.-]+)'|has no attribute '(?P<name>\w+)'")
_LOADS = frozenset(("safe_load", "load", "full_load", "loads", "unsafe_load"))
_DEEP = re.compile(
    r"deep_?(?:update|merge)|recursive|OmegaConf\.merge|merge_dicts|always_merger", re.I
)


def look(fault: Fault, script: Script) -> Finding | None:
    """A key that one file has in a section and another file, which was put over it, has not."""
    missed = _KEY.search(fault.error)
    files = own_files(script)
    merges = [(own, node) for own in files for node in _merges(own)]
    is_deep = any(_DEEP.search(script.text(own.file) or "") for own in files)
    if missed is None or len(merges) != 1 or is_deep:
        return None
    key = missed["key"] or missed["name"]
    for section in _sections(script, key):
        found = settings_at(script, (section,), ())
        having = [one for one in found if one.inside(key) is not None]
        lacking = [one for one in found if one.type == "map" and one.inside(key) is None]
        if having and lacking:
            return _told(script, merges[0], key, section, having[0], lacking)
    return None


def _told(
    script: Script,
    merge: tuple[Own, ast.expr],
    key: str,
    section: str,
    having: Setting,
    lacking: list[Setting],
) -> Finding:
    own, node = merge
    where = script.place(own.file, node)
    entry = having.inside(key)
    first: Place = script.place(having.file, having.line if entry is None else entry.line)
    other = script.place(lacking[0].file, max(1, lacking[0].line - 1))
    values = {"key": key, "section": section, "code": shown(node), "where": str(where)}
    values |= {"first": str(first), "other": str(other)}
    return Finding("section-replaced", values, (where, first, other), "configuration")


def _sections(script: Script, key: str) -> Iterator[str]:
    """The section in which the line that failed looks for a key: `model` of `cfg["model"]["n_mels"]`, also by another name."""
    frame, nodes = failed_nodes(script)
    for node in nodes:
        if not isinstance(node, ast.Subscript | ast.Attribute) or _key_of(node) != key:
            continue
        call = script.calls[frame]
        for at in origins(script, Made(call.file, node.value, frame, call.line)):
            if isinstance(at.node, ast.Subscript) and (section := text_in(at.node.slice)):
                yield section
            elif isinstance(at.node, ast.Attribute) and dotted(at.node.value) != "self":
                yield at.node.attr


def _key_of(node: ast.Subscript | ast.Attribute) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else text_in(node.slice)


def _merges(own: Own) -> Iterator[ast.expr]:
    """`cfg.update(yaml.safe_load(f))`, `{**base, **other}` of what is loaded."""
    loaded = {
        dotted(to)
        for node in all_nodes(own.tree)
        if isinstance(node, ast.Assign) and any(_is_load(one) for one in calls_in([node.value]))
        for to in node.targets
    } - {""}
    for node in all_nodes(own.tree):
        if isinstance(node, ast.Call) and called(node) == "update" and len(node.args) == 1:
            given = node.args[0]
            if dotted(given) in loaded or (isinstance(given, ast.Call) and _is_load(given)):
                yield node
        elif isinstance(node, ast.Dict) and len(node.keys) > 1 and not any(node.keys):
            if any(dotted(one) in loaded for one in node.values):
                yield node
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            yield from [node] if {dotted(node.left), dotted(node.right)} <= loaded else []


def _is_load(call: ast.Call) -> bool:
    return called(call) in _LOADS and dotted(call.func).partition(".")[0] in (
        "yaml",
        "json",
        "toml",
    )
