"""`x.is_cuda` becomes a question about the device's type, or `x.is_npu` under `--npu-only`.

Attributes that are assigned to, and `is_cuda` names that are not attributes, stay."""

import ast

from jumar.port.context import PythonFile
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


RULE = Rule("JP105", Words("is_cuda", "is_cuda 属性"), (ast.Attribute,), ("is_cuda",), check)
