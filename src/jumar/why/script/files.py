"""A file that the script itself was to write: under which condition, and with which number."""

import ast
import os
import re
from collections.abc import Iterator

from jumar.why.script.origin import Made, failed_statement, origins, parts_of
from jumar.why.script.own import own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import chain_of, dotted, parents_of, shown

CAUSES = frozenset(("file-missing", "checkpoint-fit", "checkpoint-broken", "not-there"))
_MISSING = re.compile(r"No such file or directory: '(?P<path>[^']+)'")
_WRITES = frozenset(
    ("save", "dump", "savez", "to_csv", "to_parquet", "save_pretrained", "save_model", "save_file")
)
_LARGEST = 1_000_000


def look(fault: Fault, script: Script) -> Finding | None:
    """Where it would have been written."""
    missing = _MISSING.search(fault.error)
    if missing is None or script.failed is None:
        return None
    path = missing["path"]
    for file, tree in own_files(script):
        parents = parents_of(tree)
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and dotted(call.func).rpartition(".")[2] in _WRITES:
                told = _of_write(script, file, tree, parents, call, path)
                if told is not None:
                    return told
    return None


def _of_write(
    script: Script,
    file: str,
    tree: ast.Module,
    parents: dict[ast.AST, ast.AST],
    call: ast.Call,
    path: str,
) -> Finding | None:
    for node in (*call.args, *(one.value for one in call.keywords)):
        *_, at = origins(script, Made(file, node, None, call.lineno))
        if _is_path(at.node, path) or _same(script, node, at):
            return _under_condition(script, file, tree, parents, call, path)
        told = _by_number(script, file, tree, parents, call, at.node, path)
        if told is not None:
            return told
    return None


def _same(script: Script, node: ast.expr, at: Made) -> bool:
    """Whether the line that failed names the path by the same expression, in the same function."""
    found = failed_statement(script)
    is_name = isinstance(node, ast.Name | ast.Attribute) or isinstance(at.node, ast.JoinedStr)
    if found is None or not is_name or script.failed is None or script.failed.file != at.file:
        return False
    wanted = ast.dump(node)
    return any(ast.dump(one) == wanted for one in parts_of(found[1]))


def _is_path(node: ast.expr, path: str) -> bool:
    """A literal path, or a join of which the last part is literal."""
    if isinstance(node, ast.Call) and dotted(node.func) in ("os.path.join", "Path") and node.args:
        node = node.args[-1]
        return isinstance(node, ast.Constant) and os.path.basename(path) == node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        right = node.right
        return isinstance(right, ast.Constant) and os.path.basename(path) == right.value
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and os.path.normpath(node.value) == os.path.normpath(path)
    )


def _under_condition(
    script: Script,
    file: str,
    tree: ast.Module,
    parents: dict[ast.AST, ast.AST],
    call: ast.Call,
    path: str,
) -> Finding | None:
    holders = [one for one in chain_of(call, parents) if isinstance(one, ast.If)]
    if not holders or any(_has(one, script) for one in holders):
        return None
    test = holders[0].test
    places = (script.place(file, holders[0]), script.place(file, call))
    values = {"path": path, "test": shown(test), "where": str(places[1])}
    for compare in ast.walk(test):
        start = _start(script, file, tree, compare) if isinstance(compare, ast.Compare) else None
        if start is not None:
            name, made, sign = start
            first = script.place(file, made)
            values |= {"name": name, "start": first.text, "made": str(first), "instead": sign}
            return Finding("never-better", values, (first, *places))
    return Finding("written-if", values, places)


def _start(
    script: Script, file: str, tree: ast.Module, compare: ast.Compare
) -> tuple[str, int, str] | None:
    """The best value so far that no result can beat: 0 where lower is better."""
    if len(compare.ops) != 1:
        return None
    sides = (compare.left, compare.comparators[0])
    is_lower = isinstance(compare.ops[0], ast.Lt | ast.LtE)
    if not is_lower and not isinstance(compare.ops[0], ast.Gt | ast.GtE):
        return None
    for side, other in (sides, sides[::-1]):
        if not isinstance(side, ast.Name | ast.Attribute) or "best" not in dotted(side).lower():
            continue
        is_smaller_better = is_lower == (side is sides[1])
        if is_smaller_better and "loss" not in shown(other).lower() + dotted(side).lower():
            continue
        for at in _first_values(script, file, tree, side):
            value = _number(at)
            if value is None:
                continue
            if is_smaller_better and value <= 0:
                return dotted(side), at.lineno, 'float("inf")'
            if not is_smaller_better and value >= 100:
                return dotted(side), at.lineno, 'float("-inf")'
    return None


def _first_values(
    script: Script, file: str, tree: ast.Module, side: ast.expr
) -> Iterator[ast.expr]:
    wanted = dotted(side)
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(dotted(one) == wanted for one in node.targets)
    ]
    constants = [node.value for node in found if _number(node.value) is not None]
    yield from constants if len(constants) == 1 else ()


def _number(node: ast.expr) -> float | None:
    sign = 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1.0
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return sign * node.value
    if isinstance(node, ast.Call) and dotted(node.func) == "float" and len(node.args) == 1:
        text = node.args[0]
        if isinstance(text, ast.Constant) and text.value in ("inf", "Inf"):
            return sign * _LARGEST
    return None


def _has(node: ast.If, script: Script) -> bool:
    """Whether the line that failed stands under the same condition."""
    failed = script.failed
    return failed is not None and node.lineno <= failed.line <= (node.end_lineno or 0)


def _by_number(
    script: Script,
    file: str,
    tree: ast.Module,
    parents: dict[ast.AST, ast.AST],
    call: ast.Call,
    node: ast.expr,
    path: str,
) -> Finding | None:
    """`f"epoch_{epoch}.pth"` in `for epoch in range(N)` is not written for N."""
    if not isinstance(node, ast.JoinedStr):
        return None
    holes = [one for one in node.values if isinstance(one, ast.FormattedValue)]
    loops = [one for one in chain_of(call, parents) if isinstance(one, ast.For)]
    hole = holes[-1].value if holes else None
    loop = next((one for one in loops if dotted(one.target) == dotted(hole or one)), None)
    if hole is None or loop is None or len(holes) > 2:
        return None
    parts = [
        re.escape(str(one.value)) if isinstance(one, ast.Constant) else r"(.+?)"
        for one in node.values
    ]
    matched = re.fullmatch("".join(parts), path)
    number = matched[matched.lastindex or 0] if matched else ""
    if not number.isdigit() or not isinstance(loop.iter, ast.Call):
        return None
    if dotted(loop.iter.func) != "range" or len(loop.iter.args) != 1:
        return None
    *_, end = origins(script, Made(file, loop.iter.args[0], None, loop.lineno))
    last = _number(end.node)
    if last is None or int(number) != int(last):
        return None
    places = (script.place(file, loop), script.place(file, call))
    values = {"path": path, "last": str(int(last) - 1), "number": number, "loop": places[0].text}
    return Finding("counted-from-zero", {**values, "where": str(places[1])}, places)
