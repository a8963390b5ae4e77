"""A name that torch itself does not have is reported separately from one that NPUs do not support.

Only plain members of torch's public modules that the script calls, unless it checks first with
`hasattr`, catches the error, or the name may be another package's. Modules that torch 2 has removed
are reported where they are imported, which would stop the script before its first step."""

import ast

from jumar.port.catalogue import State, catalogue
from jumar.port.context import PythonFile
from jumar.port.packages import imported
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_PLUG_INS = tuple(f"torch.{name}." for name in ("npu", "mlu", "musa", "hpu", "gcu", "sdaa", "ops"))
"""What plug-ins add to torch, and operators that are registered at run time."""
_DROPPED = {
    "torch._six": Words(
        "take inf from torch; use str for string_classes, int for int_classes and "
        "collections.abc for container_abcs",
        "请从 torch 导入 inf，string_classes、int_classes、container_abcs 分别改用 str、int、collections.abc",
    ),
    "torch.legacy": Words("use torch.nn", "请改用 torch.nn"),
    "torch.utils.serialization": Words(
        "convert the file once with an old torch, and load it with torch.load",
        "请先用旧版 torch 转换文件，再用 torch.load 加载",
    ),
}
"""Modules that existed before torch 2, and what to use instead."""


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one missing name: called or imported."""
    if isinstance(node, ast.Call):
        yield from _called(node, file)
    elif file.options.torch >= (2, 0) and not _has_another_way(node, file):
        yield from _imported(node, file)


def _has_another_way(node: ast.AST, file: PythonFile) -> bool:
    """Whether the script checks torch's version first, or catches the error."""
    return any(isinstance(a, (ast.If, ast.Try)) for a in file.ancestors(node))


def _imported(node: ast.AST, file: PythonFile) -> Outcomes:
    for dotted in imported(node):
        module = next((m for m in _DROPPED if f"{dotted}.".startswith(f"{m}.")), None)
        if module is not None:
            yield file.remark(
                node,
                module,
                Words(f"torch 2 has no {module}.", f"torch 2 中没有 {module}。"),
                _DROPPED[module],
                severity=Severity.WORK,
                kind=Kind.UNKNOWN,
            )
            return


def _called(node: ast.Call, file: PythonFile) -> Outcomes:
    name = file.name(node.func) if isinstance(node.func, ast.Attribute) else None
    if name is None or not name.startswith("torch.") or name.startswith(_PLUG_INS):
        return
    options = file.options
    if catalogue(options.torch, options.chip).api(name).state is not State.NOT_TORCH:
        return
    if any(isinstance(a, ast.Try) for a in file.ancestors(node)) or _asked_first(name, file):
        return
    if _may_be_another(node.func, file):
        return
    yield file.remark(
        node.func,
        name,
        Words(f"torch 2.13 has no {name}.", f"torch 2.13 中没有 {name}。"),
        Words(
            "it was removed or renamed, or is newer: look it up in torch's release notes",
            "该接口已移除、更名或属于更新的版本，请查阅 torch 发布说明",
        ),
        severity=Severity.LIMIT,
        effort=Effort.MINUTES,
        kind=Kind.UNKNOWN,
    )


def _asked_first(name: str, file: PythonFile) -> bool:
    """Whether the file asks for the name or for a module on the way to it: `hasattr(torch, "hip")`."""
    text = file.source.text
    return any(f'"{part}"' in text or f"'{part}'" in text for part in name.split(".")[1:])


def _may_be_another(node: ast.expr, file: PythonFile) -> bool:
    """Whether the name may come from another import, as in `try … except`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    bound = file.bound(node)
    return any(isinstance(b, str) and b.partition(".")[0] != "torch" for b in bound)


RULE = Rule(
    "JP804",
    Words("name missing from torch", "torch 中不存在的接口"),
    (ast.Call, ast.Import, ast.ImportFrom),
    ("torch",),
    check,
)
