"""Operations of the script that can make a loss nan: named with the log's own answer, as what to look at first."""

import ast
import re
from collections.abc import Iterator

from jumar.why.script.origin import Made, near, origins, shown
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import dotted

CAUSES = frozenset(("not-a-number", "numerical"))
_MOST = 2
_SUMS = frozenset(("sum", "norm", "mean"))
_GUARDED = re.compile(
    r"eps|1e-|clamp|clip|maximum|nan_to_num|dropna|fillna|isna|isnull|\+ *1\b", re.IGNORECASE
)
_READS = frozenset(("read_csv", "read_excel", "read_parquet", "read_table"))
_CLEANS = re.compile(
    r"dropna|fillna|interpolate\(|isna\(|isnull|nan_to_num|SimpleImputer|notna|notnull"
)


def look(fault: Fault, script: Script) -> Finding | None:
    """One kind only: where a script has several, none is told."""
    found: dict[str, list[tuple[str, ast.AST]]] = {}
    for file, tree in near(script):
        for name, node in _suspects(script, file, tree):
            found.setdefault(name, []).append((file, node))
    kinds = sorted(found)
    if kinds == ["nan-read", "nan-spread"]:
        (file, read), (other, spread) = found["nan-read"][0], found["nan-spread"][0]
        both = (script.place(file, read), script.place(other, spread))
        values = {"read": str(both[0]), "code": shown(spread), "where": str(both[1])}
        return Finding("nan-of-table", values, both, is_beside=True)
    if len(kinds) != 1 or len(found[kinds[0]]) > _MOST:
        return None
    places = tuple(script.place(file, node) for file, node in found[kinds[0]])
    node = found[kinds[0]][0][1]
    values = {"code": shown(node), "where": str(places[0])}
    return Finding(kinds[0], values, places, is_beside=True)


def _suspects(script: Script, file: str, tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    text = script.text(file) or ""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            divisor = node.right
            if _is_spread(divisor) and not _GUARDED.search(shown(divisor)):
                yield "nan-spread", node
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")
        if name in _READS and not _CLEANS.search(text):
            yield "nan-read", node
        inner = _argument(node)
        if inner is None or _GUARDED.search(shown(inner)):
            continue
        if name == "sqrt" and _is_sum(inner):
            yield "nan-sqrt", node
        if name in ("log", "log2", "log10") and _is_of_torch(node):
            *_, at = origins(script, Made(file, inner, None, node.lineno))
            if _may_be_zero(at.node):
                yield "nan-log", node


def _argument(call: ast.Call) -> ast.expr | None:
    """What a function is applied to: `torch.sqrt(x)`, `x.sqrt()`."""
    if call.args:
        return call.args[0]
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _is_of_torch(call: ast.Call) -> bool:
    return dotted(call.func).startswith("torch.") or not call.args


def _is_spread(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "std"


def _is_sum(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and (
        getattr(node.func, "attr", "") in _SUMS and ("**" in shown(node) or "pow(" in shown(node))
    )


def _may_be_zero(node: ast.expr) -> bool:
    name = dotted(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    name = name or getattr(getattr(node, "func", None), "attr", "")
    is_one_less = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
    return name in ("softmax", "sigmoid", "relu") or (is_one_less and "1 -" in shown(node))
