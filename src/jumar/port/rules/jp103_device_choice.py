"""`"cuda" if torch.cuda.is_available() else "cpu"` chooses the accelerator instead.

The condition is ported by JP201; only the chosen value changes. Nothing is done here under
`--npu-only`, where the literal simply becomes `"npu"`."""

import ast

from jumar.port import literals
from jumar.port.context import PythonFile
from jumar.port.literals import Form
from jumar.port.prelude import ACCELERATOR, TORCH
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one choice of a device."""
    assert isinstance(node, ast.IfExp)
    if file.options.npu_only or file.is_configuration or not _is_cpu(node.orelse):
        return
    found = literals.literal(node.body, file)
    if found is None or found.form is not Form.BARE:
        return
    if not file.options.has_accelerator:
        yield file.replace(node.body, f"{file.say.accelerator}.type", ACCELERATOR)
        return
    accelerator = f"{file.say.torch}.accelerator.current_accelerator()"
    call = file.parent(node)
    if isinstance(call, ast.Call) and _is_whole_device(call, node, file):
        start, end = file.span(call)
        literal_end = file.span(node.body)[1]
        cpu_start = file.span(node.orelse)[0]
        yield file.change(
            call,
            Piece(start, literal_end, accelerator),
            Piece(cpu_start, end, f"{file.text(call.func)}({file.text(node.orelse)})"),
            needs=(TORCH,),
        )
    else:
        yield file.replace(node.body, f"{accelerator}.type", TORCH)


def _is_cpu(node: ast.expr) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_cpu(node.orelse)
    return isinstance(node, ast.Constant) and node.value == "cpu"


def _is_whole_device(call: ast.Call, node: ast.IfExp, file: PythonFile) -> bool:
    """Whether the call only wraps the choice, on one line, so that no parentheses are needed."""
    if file.name(call.func) != "torch.device" or call.args != [node] or call.keywords:
        return False
    if not isinstance(node.orelse, ast.Constant) or "\n" in file.text(call):
        return False
    return isinstance(
        file.parent(call), (ast.Assign, ast.AnnAssign, ast.Return, ast.keyword, ast.arguments)
    )


RULE = Rule("JP103", Words("device choice", "设备选择"), (ast.IfExp,), ("cuda",), check)
