"""Modules that replace functions of torch by their own, for another vendor's devices or an old torch.

`torch.cuda.is_available = torch.xpu.is_available`: such a module makes other devices look like CUDA,
so it is left alone. `torch.amp.custom_fwd = torch.cuda.amp.custom_fwd` keeps its value."""

import ast
from collections.abc import Iterator

from jumar.port.context import PythonFile
from jumar.port.records import Remark, Severity, Words

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def report(file: PythonFile) -> Remark | None:
    """The one finding about a module that replaces functions of `torch.cuda`."""
    first = next(
        (a for a in _assignments(file, "torch.cuda.") if _is_anothers(a.value, file)), None
    )
    if first is None:
        return None
    return file.remark(
        first,
        file.text(first.targets[0]),
        Words(
            "This module replaces functions of torch.cuda, so it was left alone.",
            "该模块替换了 torch.cuda 的函数，因此未作修改。",
        ),
        Words(
            "do not import it on NPUs, or check that it does nothing there",
            "请勿在 NPU 上导入该模块，或确认其在 NPU 上不起作用",
        ),
        severity=Severity.LIMIT,
    )


def left_alone(file: PythonFile) -> list[tuple[int, int]]:
    """The values that become functions of torch itself."""
    return [
        file.span(assignment.value)
        for assignment in _assignments(file, "torch.")
        if isinstance(assignment.value, (ast.Name, ast.Attribute))
    ]


def _assignments(file: PythonFile, prefix: str) -> Iterator[ast.Assign]:
    for target in file.torch_nodes(ast.Attribute):
        assert isinstance(target, ast.Attribute)
        holder = file.parent(target) if isinstance(target.ctx, ast.Store) else None
        if isinstance(holder, ast.Assign) and (file.name(target) or "").startswith(prefix):
            yield holder


def _is_anothers(value: ast.expr, file: PythonFile) -> bool:
    """Whether a value is not torch.cuda's own function, kept to be restored."""
    if isinstance(value, ast.Attribute):
        return not (file.name(value) or "torch.cuda.").startswith("torch.cuda.")
    if not isinstance(value, ast.Name):
        return False
    bound = file.names.values(value.id, file.scope(value))
    return any(isinstance(b, (str, *_FUNCTIONS)) for b in bound) and not any(
        isinstance(b, str) and b.startswith("torch.cuda") for b in bound
    )
