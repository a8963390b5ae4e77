"""`torch.device("cuda", 1)` becomes the accelerator's device of the same index.

Only calls whose first argument is a CUDA literal; a device chosen by an expression is handled by
JP103."""

import ast

from jumar.port import literals
from jumar.port.context import PythonFile
from jumar.port.literals import Form
from jumar.port.prelude import ACCELERATOR
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one call of `torch.device`."""
    assert isinstance(node, ast.Call)
    if not node.args or file.options.npu_only or file.name(node.func) != "torch.device":
        return
    found = literals.literal(node.args[0], file)
    if found is None or found.node is not node.args[0]:
        return
    name = file.say.accelerator
    value = file.source.text[found.word[0] : file.span(found.node)[1]].rstrip("\"'")
    if len(node.args) == 1 and not node.keywords and value == "cuda":
        yield file.replace(node, name, ACCELERATOR)
    elif found.form is Form.INDEXED and value.startswith("cuda:"):
        start, end = file.span(found.node)
        index = value.partition(":")[2]
        yield file.change(node, Piece(start, end, f"{name}.type, {index}"), needs=(ACCELERATOR,))


RULE = Rule("JP102", Words("torch.device call", "torch.device 调用"), (ast.Call,), ("cuda",), check)
