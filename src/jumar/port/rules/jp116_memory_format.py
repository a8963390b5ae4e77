"""`torch.channels_last` becomes `torch.contiguous_format` on NPUs, whose plug-in accepts no other layout.

The layout changes how fast a convolution is, never its values, so it is safe to leave out: `x.to`,
`x.contiguous`, `torch.empty` and `module.to` raise an error with it on NPUs. Questions about a tensor's
layout (`is_contiguous`, comparisons) stay."""

import ast

from jumar.port.context import PythonFile
from jumar.port.prelude import ACCELERATOR, TORCH_NPU
from jumar.port.records import Words
from jumar.port.rules.base import Outcomes, Rule

_LAYOUTS = frozenset({"torch.channels_last", "torch.channels_last_3d"})
_ASKS = "is_contiguous"
_NO_PARENTHESES = (ast.keyword, ast.Assign, ast.AnnAssign, ast.Return)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one layout that is used as a value."""
    assert isinstance(node, (ast.Attribute, ast.Name))
    if file.name(node) not in _LAYOUTS or not isinstance(node.ctx, ast.Load):
        return
    if _is_assigned(node, file) or _is_asked(node, file) or _is_chosen(node, file):
        return
    torch = file.say.torch
    if file.options.npu_only:
        yield file.replace(node, f"{torch}.contiguous_format", TORCH_NPU)
        return
    choice = (
        f'{torch}.contiguous_format if {file.say.accelerator}.type == "npu" else {file.text(node)}'
    )
    bare = isinstance(file.parent(node), _NO_PARENTHESES)
    yield file.replace(node, choice if bare else f"({choice})", ACCELERATOR)


def _is_assigned(node: ast.Attribute | ast.Name, file: PythonFile) -> bool:
    """Whether this is a variable, which is ported where it is set."""
    bound = file.bound(node)
    return any(isinstance(value, ast.AST) for value in bound)


def _is_asked(node: ast.expr, file: PythonFile) -> bool:
    """Whether the layout is only compared, or asked of a tensor."""
    holder = file.parent(node)
    call = file.parent(holder) if isinstance(holder, ast.keyword) else holder
    if isinstance(call, ast.Call):
        return getattr(call.func, "attr", "") == _ASKS
    if isinstance(holder, (ast.List, ast.Tuple, ast.Set)):
        holder = file.parent(holder)
    return isinstance(holder, (ast.Compare, ast.Dict))


def _is_chosen(node: ast.expr, file: PythonFile) -> bool:
    """Whether the code already chooses by the kind of card, from an earlier port or by the author."""
    holder = file.parent(node)
    return isinstance(holder, ast.IfExp) and "npu" in file.text(holder.test)


RULE = Rule(
    "JP116",
    Words("memory format", "内存格式"),
    (ast.Attribute, ast.Name),
    ("channels_last",),
    check,
    torch_names_only=True,
)
