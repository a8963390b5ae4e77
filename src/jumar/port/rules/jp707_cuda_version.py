"""`torch.version.cuda` is reported: it is None in torch builds for NPUs."""

import ast

from jumar.port.context import PythonFile
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_GUARD = Words(
    "guard this code, or check the device's type instead",
    "请先判断是否为 None，或改为判断设备类型",
)
_SHOWN = Words("nothing to do: the text then says None", "无需处理：此时文本中显示 None")


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one use; merely testing or printing the value is only a note."""
    assert isinstance(node, ast.Attribute)
    if file.name(node) != "torch.version.cuda" or not isinstance(node.ctx, ast.Load):
        return
    parent = file.parent(node)
    taken_apart = isinstance(parent, (ast.Attribute, ast.Subscript)) or (
        isinstance(parent, ast.Call) and _converts(parent)
    )
    yield file.remark(
        node,
        "torch.version.cuda",
        Words(
            "torch.version.cuda is None in torch builds for NPUs.",
            "NPU 版 torch 的 torch.version.cuda 为 None。",
        ),
        _SHOWN if _is_shown(node, file) else _GUARD,
        severity=Severity.WORK if taken_apart else Severity.INFO,
        effort=Effort.MINUTES if taken_apart else Effort.NONE,
        kind=Kind.DEVICE,
    )


def _is_shown(node: ast.AST, file: PythonFile) -> bool:
    """Whether the version only becomes part of a text."""
    holder = file.parent(node)
    if isinstance(holder, ast.Call):
        return getattr(holder.func, "id", "") in ("print", "str")
    return isinstance(holder, ast.FormattedValue)


def _converts(call: ast.Call) -> bool:
    called = (
        call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    )
    return called in ("float", "int", "parse", "Version", "LooseVersion")


RULE = Rule(
    "JP707",
    Words("CUDA version", "CUDA 版本"),
    (ast.Attribute,),
    ("version.cuda", "version"),
    check,
    torch_names_only=True,
)
