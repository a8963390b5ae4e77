"""Functions of torch that mean CUDA when no device is given get the accelerator.

`torch.random.fork_rng()` and flex attention's `create_block_mask(…)` in torch before 2.13. Calls that
name a device, or pass their arguments on, stay."""

import ast
from typing import NamedTuple

from jumar.port.context import PythonFile
from jumar.port.prelude import ACCELERATOR, TORCH, TORCH_NPU
from jumar.port.records import Words
from jumar.port.rules.base import Outcomes, Rule

_FOLLOWS_ACCELERATOR = (2, 13)
"""From this version of torch on, the default is the machine's accelerator."""
_FLEX = "torch.nn.attention.flex_attention"


class _Default(NamedTuple):
    """The parameter that is "cuda" by default, and its position."""

    name: str
    position: int


_DEFAULTS = {
    "torch.random.fork_rng": _Default("device_type", 4),
    f"{_FLEX}.create_block_mask": _Default("device", 5),
    f"{_FLEX}.create_mask": _Default("device", 5),
}


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one call."""
    assert isinstance(node, ast.Call)
    default = _DEFAULTS.get(file.name(node.func) or "")
    if default is None or file.options.torch >= _FOLLOWS_ACCELERATOR:
        return
    passes_on = any(isinstance(a, ast.Starred) for a in node.args)
    if passes_on or any(k.arg in (None, default.name) for k in node.keywords):
        return
    if len(node.args) > default.position:
        return
    text, need = _device(node, default, file)
    last = max((file.span(a)[1] for a in (*node.args, *node.keywords)), default=None)
    argument = f"{default.name}={text}"
    if last is None:
        yield file.change(node, file.insert(file.span(node)[1] - 1, argument), needs=(need,))
    else:
        at = _behind_parentheses(last, node, file)
        yield file.change(node, file.insert(at, f", {argument}"), needs=(need,))


def _device(node: ast.Call, default: _Default, file: PythonFile) -> tuple[str, str]:
    if file.options.npu_only:
        return '"npu"', TORCH_NPU
    if default.name == "device":
        return file.say.accelerator, ACCELERATOR
    if node.args or any(k.arg == "devices" for k in node.keywords):
        return f"{file.say.accelerator}.type", ACCELERATOR
    # Without a list, all cards of that type are meant; the CPU has none.
    return f'"npu" if hasattr({file.say.torch}, "npu") else "cuda"', TORCH


def _behind_parentheses(last: int, node: ast.Call, file: PythonFile) -> int:
    """Where the last argument ends, including parentheses around it."""
    text, end = file.source.text, file.span(node)[1] - 1
    at = last
    for place in range(last, end):
        if text[place] == ")":
            at = place + 1
        elif not text[place].isspace():
            break
    return at


RULE = Rule(
    "JP117",
    Words("default device", "默认设备"),
    (ast.Call,),
    ("fork_rng", "create_block_mask", "create_mask"),
    check,
)
