"""`torch.cuda.FloatTensor` becomes the accelerator's type of the same name.

As a value or as the string `"torch.cuda.FloatTensor"`; NPUs have no double-precision type, which is
reported (JP702)."""

import ast

from jumar.port.context import PythonFile
from jumar.port.npu_api import TENSOR_TYPES
from jumar.port.patterns import lazy_pattern
from jumar.port.prelude import ACCELERATOR, TORCH_NPU
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule

_TEXT = lazy_pattern(r"torch\.cuda\.(\w+Tensor)")


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one type written as a string; values are handled by JP201."""
    assert isinstance(node, ast.Constant)
    if not isinstance(node.value, str):
        return
    match = _TEXT.fullmatch(node.value)
    if match is None or match[1] not in TENSOR_TYPES:
        return
    start, end = file.span(node)
    written = file.source.text[start:end]
    word = written.find("cuda")
    if written[1:-1] != node.value:
        return
    if file.options.npu_only:
        yield file.change(node, Piece(start + word, start + word + 4, "npu"), needs=(TORCH_NPU,))
    else:
        yield file.change(
            node,
            file.insert(start, "f"),
            Piece(start + word, start + word + 4, f"{{{file.say.accelerator}.type}}"),
            needs=(ACCELERATOR,),
        )


RULE = Rule(
    "JP110",
    Words("tensor type as string", "张量类型字符串"),
    (ast.Constant,),
    ("'torch.cuda.", '"torch.cuda.'),
    check,
)
