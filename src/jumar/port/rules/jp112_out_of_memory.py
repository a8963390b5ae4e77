"""`if "CUDA out of memory" in str(error)` also matches the message of NPUs: `"out of memory"`.

Only where one string is searched in another; printed messages stay. What a message starts with
becomes one of two beginnings."""

import ast
import re

from jumar.port.context import PythonFile
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule

_MESSAGE = lazy_pattern(r"(?P<of_cuda>CUDA (?:error: )?)out of memory", re.IGNORECASE)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one string that is searched in a message."""
    assert isinstance(node, ast.Constant)
    holder = file.parent(node)
    is_searched = isinstance(holder, ast.Compare) and holder.left is node
    is_beginning = _is_a_beginning(node, holder)
    is_listed = _is_one_of_several(holder, file)
    if not is_searched and not is_beginning and not is_listed:
        return
    start, end = file.span(node)
    text = file.text(node)
    match = _MESSAGE.search(text)
    if match and is_beginning:
        yield file.change(node, Piece(start, end, f"({text}, {text.replace('CUDA', 'NPU')})"))
    elif match and (
        is_listed
        or (isinstance(holder, ast.Compare) and isinstance(holder.ops[0], (ast.In, ast.NotIn)))
    ):
        place = Piece(start + match.start("of_cuda"), start + match.end("of_cuda"), "")
        yield file.change(node, place)


def _is_one_of_several(holder: ast.AST | None, file: PythonFile) -> bool:
    """Whether this is in the list of `any(part in str(error) for part in [...])`."""
    if not isinstance(holder, (ast.List, ast.Tuple, ast.Set)):
        return False
    loop = file.parent(holder)
    searched = file.parent(loop) if isinstance(loop, ast.comprehension) else None
    element = searched.elt if isinstance(searched, (ast.GeneratorExp, ast.ListComp)) else None
    return (
        isinstance(element, ast.Compare)
        and isinstance(element.ops[0], ast.In)
        and isinstance(loop, ast.comprehension)
        and ast.unparse(element.left) == ast.unparse(loop.target)
    )


def _is_a_beginning(node: ast.Constant, holder: ast.AST | None) -> bool:
    return (
        isinstance(holder, ast.Call)
        and isinstance(holder.func, ast.Attribute)
        and holder.func.attr == "startswith"
        and holder.args[:1] == [node]
        and str(node.value).startswith("CUDA")
    )


RULE = Rule(
    "JP112",
    Words("out-of-memory message", "显存不足信息"),
    (ast.Constant,),
    ("out of memory",),
    check,
)
