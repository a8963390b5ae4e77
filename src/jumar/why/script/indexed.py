"""A table that is written with its index and read again with a column more; and rows taken out of a table to which others still point."""

import ast
import re
from collections.abc import Iterator

from jumar.why.script.origin import Made, origins
from jumar.why.script.own import Own, all_files, all_nodes, called, calls_in, own_files, text_in
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, argument, dotted, own_nodes, shown

CAUSES = frozenset(("shape", "index-range"))
_PRODUCT = re.compile(r"cannot be multiplied \(\d+x(?P<got>\d+) and (?P<wanted>\d+)x\d+\)")
_OUTSIDE = re.compile(
    r"index \d+ is out of bounds for (?:dimension|axis) \d+ with size \d+|index out of range in self|indices should be"
)
_LEAVES_IT = re.compile(r"Unnamed|index_col")
_COLUMNS = r"[A-Z][A-Z_]+|feat|cols|columns|names|keys|inputs"
_RENUMBERS = re.compile(r"relabel|searchsorted|return_inverse|subgraph\(|factorize|remap_nodes")


def look(fault: Fault, script: Script) -> Finding | None:
    """What wrote one column more than is meant, or what kept the old numbers."""
    if fault.cause == "shape":
        found = _PRODUCT.search(fault.error)
        is_one_more = found is not None and int(found["got"]) == int(found["wanted"]) + 1
        return _column(script) if is_one_more else None
    return _old_numbers(script) if _OUTSIDE.search(fault.error) else None


def _column(script: Script) -> Finding | None:
    """`df.to_csv(path)`, and read_csv() of the same path."""
    own = own_files(script)
    if any(_LEAVES_IT.search(script.text(one.file) or "") for one in own):
        return None
    read = {
        name: (one, call)
        for one in own
        for call in calls_in([one.tree])
        if called(call) == "read_csv"
        and argument(call, "usecols") is None
        and _is_taken_whole(script.text(one.file) or "", call, one)
        and (name := _path(script, one, argument(call, "filepath_or_buffer", 0)))
    }
    written = [
        (one, call, name)
        for one in all_files(script)
        for call in calls_in([one.tree])
        if called(call) == "to_csv"
        and (name := _path(script, one, argument(call, "path_or_buf", 0))) in read
    ]
    # Written in two ways, which one was it?
    if len(written) != 1 or argument(written[0][1], "index") is not None:
        return None
    at, call, name = written[0]
    reader, reads = read[name or ""]
    where, there = script.place(at.file, call), script.place(reader.file, reads)
    values = {"code": shown(call), "where": str(where), "read": shown(reads), "there": str(there)}
    return Finding("index-column", values, (where, there))


def _is_taken_whole(text: str, call: ast.Call, own: Own) -> bool:
    """`df.values`, and no `df[FEATURES]`: all columns are features."""
    names = {
        dotted(node.targets[0])
        for node in all_nodes(own.tree)
        if isinstance(node, ast.Assign) and node.value is call
    } - {""}
    whole = any(
        re.search(rf"\b{re.escape(one)}\.(?:values|to_numpy|drop|iloc)\b", text) for one in names
    )
    chosen = rf"\[\s*(?:\[|(?:{_COLUMNS})\w*\s*\])"
    return whole and not any(re.search(rf"\b{re.escape(one)}{chosen}", text) for one in names)


def _path(script: Script, own: Own, node: ast.expr | None) -> str | None:
    """The name of a file, as far as the code tells it."""
    if node is None:
        return None
    *_, at = origins(script, Made(own.file, node, None, node.lineno))
    text = text_in(at.node)
    if (
        isinstance(at.node, ast.Call)
        and dotted(at.node.func).endswith("path.join")
        and at.node.args
    ):
        text = text_in(at.node.args[-1])
    if isinstance(at.node, ast.BinOp) and isinstance(at.node.op, ast.Div):
        text = text_in(at.node.right)
    return None if text is None else text.rpartition("/")[2]


def _old_numbers(script: Script) -> Finding | None:
    """`edges = edges[:, mask[edges[0]] & mask[edges[1]]]` beside `x[keep]`."""
    found = [
        (own, node, name, rows)
        for own in own_files(script)
        if not _RENUMBERS.search(script.text(own.file) or "")
        for function in all_nodes(own.tree)
        if isinstance(function, Function)
        for node, name, rows in _chosen(function)
    ]
    if len(found) != 1:
        return None
    own, node, name, rows = found[0]
    where, there = script.place(own.file, node), script.place(own.file, rows)
    values = {"name": name, "code": where.text, "where": str(where)}
    values |= {"rows": shown(rows), "there": str(there)}
    return Finding("old-numbers", values, (where, there))


def _chosen(function: Function) -> Iterator[tuple[ast.Assign, str, ast.Subscript]]:
    """Pairs of numbers of which a mask over the rows chooses some, where these rows are taken out too and the pairs keep their numbers."""
    nodes = list(own_nodes(function))
    items = [
        one for one in nodes if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Load)
    ]
    made = {
        dotted(one.targets[0]): one.value
        for one in nodes
        if isinstance(one, ast.Assign) and dotted(one.targets[0])
    }
    for node in nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Subscript):
            continue
        name = dotted(node.value.value)
        masks = _masks(node.value.slice, made, name)
        if not name or dotted(node.targets[0]) != name or len(masks) != 1:
            continue
        keeps = masks | {to for to, value in made.items() if _is_of(value, masks)}
        rows = [
            one
            for one in items
            if dotted(one.slice) in keeps and dotted(one.value) not in ("", name)
        ]
        is_renumbered = any(
            dotted(one.slice) == name and dotted(one.value) not in masks for one in items
        )
        if rows and not is_renumbered:
            yield node, name, min(rows, key=lambda one: one.lineno)


def _masks(chosen: ast.expr, made: dict[str, ast.expr], name: str) -> set[str]:
    """`mask` of `edges[:, mask[edges[0]] & mask[edges[1]]]`, also where the choice has a name."""
    parts = [
        chosen,
        *(made[one.id] for one in ast.walk(chosen) if isinstance(one, ast.Name) and one.id in made),
    ]
    return {
        dotted(one.value)
        for part in parts
        for one in ast.walk(part)
        if isinstance(one, ast.Subscript)
        and isinstance(one.slice, ast.Subscript)
        and dotted(one.slice.value) == name
        and dotted(one.value)
    }


def _is_of(value: ast.expr, masks: set[str]) -> bool:
    """`mask.nonzero().squeeze(1)`."""
    return any(
        isinstance(one, ast.Call) and called(one) in ("nonzero", "where", "flatnonzero")
        for one in ast.walk(value)
    ) and any(isinstance(one, ast.Name) and one.id in masks for one in ast.walk(value))
