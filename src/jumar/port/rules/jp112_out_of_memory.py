"""`if "CUDA out of memory" in str(error)` also matches the message of NPUs: `"out of memory"`.

Only where one string is searched in another; printed messages stay."""

import ast
import re

from jumar.port.context import PythonFile
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule

_MESSAGE = re.compile(r"(?P<of_cuda>CUDA (?:error: )?)out of memory", re.IGNORECASE)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one string that is searched in a message."""
    assert isinstance(node, ast.Constant)
    holder = file.parent(node)
    if not isinstance(holder, ast.Compare) or holder.left is not node:
        return
    start, _ = file.span(node)
    match = _MESSAGE.search(file.text(node))
    if match and isinstance(holder.ops[0], (ast.In, ast.NotIn)):
        place = Piece(start + match.start("of_cuda"), start + match.end("of_cuda"), "")
        yield file.change(node, place)


RULE = Rule(
    "JP112",
    Words("out-of-memory message", "显存不足信息"),
    (ast.Constant,),
    ("out of memory",),
    check,
)
