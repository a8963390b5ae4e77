"""`Adam(…, fused=True)` requests the fused kernel only where it exists.

The plug-in has it for AdamW and SGD, but not for Adam and Adagrad. Portable code keeps it on GPUs
and the CPU; NPU-only code drops it. Other values of `fused` stay."""

import ast

from jumar.port.context import PythonFile
from jumar.port.prelude import ACCELERATOR
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule

_WITHOUT_KERNEL = frozenset(
    {
        "torch.optim.Adam",
        "torch.optim.adam.Adam",
        "torch.optim.Adagrad",
        "torch.optim.adagrad.Adagrad",
    }
)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one optimizer."""
    assert isinstance(node, ast.Call)
    if file.name(node.func) not in _WITHOUT_KERNEL:
        return
    keyword = next((k for k in node.keywords if k.arg == "fused"), None)
    if keyword is None or not isinstance(keyword.value, ast.Constant) or not keyword.value.value:
        return
    if not file.options.npu_only:
        question = f'{file.say.accelerator}.type != "npu"'
        yield file.replace(keyword.value, question, ACCELERATOR)
        return
    every = sorted((*node.args, *node.keywords), key=lambda a: file.span(a))
    before = every.index(keyword) - 1
    if before >= 0:
        yield file.change(node, Piece(file.span(every[before])[1], file.span(keyword)[1], ""))


RULE = Rule("JP304", Words("fused optimizer", "融合优化器"), (ast.Call,), ("fused",), check)
