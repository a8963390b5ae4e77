"""Names of files that a condition drops without a word until none is left."""

import ast
from collections.abc import Iterator

from jumar.why.script.origin import Made
from jumar.why.script.own import Own, all_nodes, called, calls_in, own_files, text_in
from jumar.why.script.paths import IS_EMPTY, comes_from
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import argument, shown

CAUSES = frozenset(("zero-division", "data-empty", "configuration", "index-range"))
_ASKS = frozenset(("exists", "isfile", "is_file", "lexists"))
_FINDS = frozenset(("glob", "iglob", "rglob", "scandir", "walk", "listdir", "iterdir"))


def look(fault: Fault, script: Script) -> Finding | None:
    """The only condition that asks whether files are there, where what is empty comes from it."""
    if not IS_EMPTY.search(fault.error):
        return None
    files = own_files(script)
    found = [(own, node) for own in files for node in _filters(own)]
    if len(found) != 1 or any(
        called(one) in _FINDS for own in files for one in calls_in([own.tree])
    ):
        return None
    own, node = found[0]
    if not comes_from(script, files, own, node):
        return None
    where = script.place(own.file, node)
    values = {"code": shown(node, 120), "where": str(where)}
    for lines in _split_lines(script, own):
        read = script.place(lines.file, lines.node)
        values |= {"read": str(read), "lines": shown(lines.node)}
        return Finding("filter-empty-lines", values, (where, read), "data-empty")
    return Finding("filter-empty", values, (where,), "data-empty")


def _filters(own: Own) -> Iterator[ast.expr]:
    """`[f for f in files if os.path.exists(f)]`."""
    for node in all_nodes(own.tree):
        if not isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            continue
        if any(called(one) in _ASKS for part in node.generators for one in calls_in(part.ifs)):
            yield node


def _split_lines(script: Script, own: Own) -> Iterator[Made]:
    """`f.read().split("\\n")` of a file opened with newline="", or in bytes: what Windows wrote keeps a character."""
    for node in all_nodes(own.tree):
        if not isinstance(node, ast.Call) or called(node) != "split":
            continue
        read = node.func.value if isinstance(node.func, ast.Attribute) else None
        is_read = isinstance(read, ast.Call) and called(read) == "read"
        if text_in(argument(node, "sep", 0)) != "\n" or not is_read:
            continue
        texts = script.text(own.file) or ""
        if "strip(" not in texts and any(map(_keeps_ends, calls_in([own.tree]))):
            yield Made(own.file, node)


def _keeps_ends(call: ast.Call) -> bool:
    return called(call) == "open" and text_in(argument(call, "newline")) == ""
