"""`x.is_cuda` becomes a check of the device's type, or `x.is_npu` under `--npu-only`.

Attributes that are assigned to, and `is_cuda` names that are not attributes, stay; so do guards of
an operator compiled for CUDA, or of a package tied to it."""

import ast
import re

from jumar.port.context import PythonFile
from jumar.port.cuda_questions import asked_with_package
from jumar.port.guards import stays
from jumar.port.patterns import lazy_pattern
from jumar.port.prelude import TORCH_NPU
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule

_NO_PARENTHESES = (
    ast.If,
    ast.While,
    ast.Assert,
    ast.BoolOp,
    ast.Assign,
    ast.Return,
    ast.keyword,
    ast.IfExp,
    ast.Call,
)


_COMPILED = lazy_pattern(
    r"\bcpp_extension\b|^\s*from\s+\S*\b_(?:ext|C)\b"
    r"|^\s*(?:from\s+\S+\s+)?import\s.*\b(?:_ext|_C|\w+_(?:cuda|ext))\b",
    re.MULTILINE,
)
"""Imports of a repository's compiled extensions, by their usual names."""


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one use of `is_cuda`."""
    assert isinstance(node, ast.Attribute)
    if node.attr != "is_cuda" or not isinstance(node.ctx, ast.Load):
        return
    parent = file.parent(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return
    if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
        # A flag of the class itself; modules have no such attribute.
        return
    if _guards_a_kernel(node, file) or asked_with_package(node, file) or stays(node, file):
        return
    start, end = file.span(node)
    word = end - len("is_cuda")
    if file.options.npu_only:
        yield file.change(node, Piece(word, end, "is_npu"), needs=(TORCH_NPU,))
    elif isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
        outer, _ = file.span(parent)
        yield file.change(parent, Piece(outer, start, ""), Piece(word, end, 'device.type == "cpu"'))
    elif isinstance(parent, _NO_PARENTHESES):
        yield file.change(node, Piece(word, end, 'device.type != "cpu"'))
    else:
        yield file.change(node, file.insert(start, "("), Piece(word, end, 'device.type != "cpu")'))


def _guards_a_kernel(node: ast.Attribute, file: PythonFile) -> bool:
    """Whether the check is in an autograd function that calls code compiled for CUDA."""
    owner = file.enclosing_class(node)
    names = [file.name(base) or "" for base in owner.bases] if owner is not None else []
    is_function = any(n.startswith("torch.autograd.") and n.endswith("Function") for n in names)
    if not is_function:
        return False
    guard = next((a for a in file.ancestors(node) if isinstance(a, ast.stmt)), None)
    refuses = isinstance(guard, ast.If) and "NotImplementedError" in file.text(guard.body[0])
    return refuses or _COMPILED.search(file.source.text) is not None


RULE = Rule("JP105", Words("is_cuda", "is_cuda 属性"), (ast.Attribute,), ("is_cuda",), check)
