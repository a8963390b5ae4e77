"""`x.to(0)` and `device=0` name the kind of card where it is not implied.

From torch 2.1 on, a bare number means the machine's accelerator, so portable code keeps it;
NPU-only code and older versions get it spelled out. Numbers that are not a torch device stay."""

import ast

from jumar.port.context import PythonFile
from jumar.port.prelude import ACCELERATOR, TORCH_NPU
from jumar.port.records import Words
from jumar.port.rules.base import Outcomes, Rule

_NUMBERS_ARE_NEUTRAL = (2, 1)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one number that is a device."""
    assert isinstance(node, ast.Call)
    options = file.options
    if not options.npu_only and options.torch >= _NUMBERS_ARE_NEUTRAL:
        return
    number = _number(node, file)
    if number is None:
        return
    if options.npu_only:
        yield file.replace(number, f'"npu:{file.text(number)}"', TORCH_NPU)
    else:
        name = file.say.accelerator
        yield file.replace(number, f'f"{{{name}.type}}:{file.text(number)}"', ACCELERATOR)


def _number(node: ast.Call, file: PythonFile) -> ast.expr | None:
    moves = isinstance(node.func, ast.Attribute) and node.func.attr == "to"
    if moves and node.args and _is_number(node.args[0]):
        return node.args[0]
    name = file.name(node.func) or ""
    if name.startswith("torch.") and not name.startswith(("torch.cuda.", "torch.npu.")):
        for keyword in node.keywords:
            if keyword.arg == "device" and _is_number(keyword.value):
                return keyword.value
    return None


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 0


RULE = Rule("JP108", Words("integer device", "整数设备号"), (ast.Call,), (".to(", "device="), check)
