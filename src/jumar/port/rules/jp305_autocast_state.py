"""Queries of autocast's state without a device, which mean CUDA, name the accelerator.

`torch.is_autocast_enabled()`, `torch.get_autocast_gpu_dtype()` and their setters, as hand-written
checkpointing uses them. Only for torch versions that take the device (2.4 on); calls with one stay."""

import ast

from jumar.port.context import PythonFile
from jumar.port.prelude import ACCELERATOR, TORCH_NPU
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule

_TAKES_DEVICE = (2, 4)
_NAMES = {
    "torch.is_autocast_enabled": ("is_autocast_enabled", 0),
    "torch.get_autocast_gpu_dtype": ("get_autocast_dtype", 0),
    "torch.set_autocast_enabled": ("set_autocast_enabled", 1),
    "torch.set_autocast_gpu_dtype": ("set_autocast_dtype", 1),
}
"""The new name, and how many arguments a call without a device has."""


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one call."""
    assert isinstance(node, ast.Call)
    known = _NAMES.get(file.name(node.func) or "")
    if known is None or file.options.torch < _TAKES_DEVICE or node.keywords:
        return
    name, arguments = known
    if len(node.args) != arguments or not isinstance(node.func, ast.Attribute):
        return
    _, end = file.span(node.func)
    device = '"npu"' if file.options.npu_only else f"{file.say.accelerator}.type"
    first = file.span(node.args[0])[0] if node.args else file.span(node)[1] - 1
    yield file.change(
        node,
        Piece(end - len(node.func.attr), end, name),
        file.insert(first, f"{device}, " if node.args else device),
        needs=(TORCH_NPU,) if file.options.npu_only else (ACCELERATOR,),
    )


RULE = Rule("JP305", Words("state of autocast", "autocast 状态"), (ast.Call,), ("autocast",), check)
