"""Code that already supports NPUs: in an `if` chain with a branch for them, CUDA's branch and the rest stay.

`if device == "cuda": … elif device == "npu": …` and the like, however it is phrased; also one after the
other, where each returns."""

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from jumar.port.context import PythonFile
from jumar.port.patterns import lazy_pattern

_NPU = lazy_pattern(r"(?:^|[^a-z])npu(?:$|[^a-z])", re.IGNORECASE)
_NPU_TRACES = ("npu", "NPU", "Npu")
_CUDA = lazy_pattern(r"cuda", re.IGNORECASE)
_ROCM_TRACES = ("hip", "HIP", "rocm", "ROCM", "ROCm")
_ROCM = lazy_pattern(r"(?:^|[^a-z])(?:hip|rocm)(?:$|[^a-z])", re.IGNORECASE)
_LEAVES = (ast.Return, ast.Raise)


def left_alone(file: PythonFile) -> list[tuple[int, int]]:
    """The spans of tests and bodies for CUDA, next to a branch for NPUs."""
    text = file.source.text
    if "cuda" not in text or not any(trace in text for trace in _NPU_TRACES):
        return []
    spans: list[tuple[int, int]] = []
    for node in file.names.found[ast.If]:
        assert isinstance(node, ast.If)
        if _goes_on_from_above(node, file):
            continue
        chain = list(_chain(node))
        asked = [file.text(branch.test) for branch in chain]
        if chain[-1].orelse and any(_NPU.search(q) and not _CUDA.search(q) for q in asked):
            # Once NPUs are handled, what remains is for CUDA.
            spans.append((file.span(chain[-1].orelse[0])[0], file.span(chain[-1].orelse[-1])[1]))
        for branch, question in zip(chain, asked, strict=True):
            others = [other for other in asked if other is not question]
            for_cuda = _CUDA.search(question) and not _NPU.search(question)
            if for_cuda and any(_NPU.search(o) and not _CUDA.search(o) for o in others):
                start, _ = file.span(branch.test)
                spans.append((start, file.span(branch.body[-1])[1]))
    for kind in (ast.FunctionDef, ast.AsyncFunctionDef):
        for function in file.names.found[kind]:
            assert isinstance(function, kind)
            spans += _one_after_the_other(function.body, file)
    return spans


def for_rocm(file: PythonFile) -> list[tuple[int, int]]:
    """The spans of branches for AMD's cards, which NPUs never take."""
    text = file.source.text
    if not any(trace in text for trace in _ROCM_TRACES):
        return []
    return [
        (file.span(node.body[0])[0], file.span(node.body[-1])[1])
        for node in file.names.found[ast.If]
        if isinstance(node, ast.If) and _asks_for_rocm(node.test)
    ]


def _asks_for_rocm(asked: ast.expr) -> bool:
    """Whether a yes means an AMD card: `torch.version.hip`, `is_hip()`, `… is not None`."""
    if isinstance(asked, ast.BoolOp):
        return isinstance(asked.op, ast.And) and any(map(_asks_for_rocm, asked.values))
    if isinstance(asked, ast.Compare):
        is_set = isinstance(asked.ops[0], ast.IsNot) and len(asked.ops) == 1
        return is_set and _asks_for_rocm(asked.left)
    if isinstance(asked, ast.Call):
        asked = asked.func
    return isinstance(asked, (ast.Name, ast.Attribute)) and bool(
        _ROCM.search(asked.attr if isinstance(asked, ast.Attribute) else asked.id)
    )


def _one_after_the_other(body: list[ast.stmt], file: PythonFile) -> Iterator[tuple[int, int]]:
    """`if is_npu(): return …` and what follows it, and a branch for CUDA that leaves before it."""
    for place, statement in enumerate(body):
        if not _is_for_npus(statement, file):
            continue
        if place + 1 < len(body) and isinstance(statement.body[-1], _LEAVES):
            yield file.span(body[place + 1])[0], file.span(body[-1])[1]
        for above in body[:place]:
            if isinstance(above, ast.If) and isinstance(above.body[-1], _LEAVES):
                asked = file.text(above.test)
                if _CUDA.search(asked) and not _NPU.search(asked) and not above.orelse:
                    yield file.span(above)


def _is_for_npus(statement: ast.stmt, file: PythonFile) -> TypeGuard[ast.If]:
    """Whether this is a branch for NPUs alone; a negated question is not."""
    if not isinstance(statement, ast.If):
        return False
    asked = file.text(statement.test)
    negated = any(
        isinstance(n, (ast.Not, ast.NotEq, ast.NotIn, ast.Or)) for n in ast.walk(statement.test)
    )
    return bool(_NPU.search(asked)) and not _CUDA.search(asked) and not negated


def _goes_on_from_above(node: ast.If, file: PythonFile) -> bool:
    above = file.parent(node)
    return isinstance(above, ast.If) and above.orelse == [node]


def _chain(first: ast.If) -> Iterator[ast.If]:
    branch: ast.stmt | None = first
    while isinstance(branch, ast.If):
        yield branch
        branch = branch.orelse[0] if len(branch.orelse) == 1 else None
