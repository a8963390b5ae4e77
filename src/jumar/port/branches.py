"""Code that already supports NPUs: in an `if` chain with a branch for them, CUDA's branch and the rest stay.

`if device == "cuda": … elif device == "npu": …` and the like, however it is phrased."""

import ast
import re
from collections.abc import Iterator

from jumar.port.context import PythonFile

_NPU = re.compile(r"(?:^|[^a-z])npu(?:$|[^a-z])", re.IGNORECASE)
_CUDA = re.compile(r"cuda", re.IGNORECASE)


def left_alone(file: PythonFile) -> list[tuple[int, int]]:
    """The spans of tests and bodies for CUDA, next to a branch for NPUs."""
    text = file.source.text
    if "cuda" not in text or not _NPU.search(text):
        return []
    spans: list[tuple[int, int]] = []
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.If) or _goes_on_from_above(node, file):
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
    return spans


def _goes_on_from_above(node: ast.If, file: PythonFile) -> bool:
    above = file.parent(node)
    return isinstance(above, ast.If) and above.orelse == [node]


def _chain(first: ast.If) -> Iterator[ast.If]:
    branch: ast.stmt | None = first
    while isinstance(branch, ast.If):
        yield branch
        branch = branch.orelse[0] if len(branch.orelse) == 1 else None
