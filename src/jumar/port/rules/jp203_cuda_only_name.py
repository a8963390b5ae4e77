"""Names of `torch.cuda` that the plug-in does not have are reported, not changed.

`torch.cuda.nvtx`, `.cudart`, `.nccl`, `.get_arch_list` and the like. In portable code, so is
`CUDAGraph`, whose name differs between the two."""

import ast
import re

from jumar.port.context import PythonFile
from jumar.port.npu_api import HISTORY, HISTORY_ARGUMENTS, RENAMED, SAME_NAME, TENSOR_TYPES, way_out
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Effort, Kind, Remark, Severity, Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.rules.jp206_nvtx_range import is_plain_range

_ELSEWHERE = frozenset({"amp", "OutOfMemoryError", "DoubleTensor", "*"})
_OF_OBJECTS = {
    "cuda_stream": "npu_stream",
    "_share_cuda_": "_share_npu_",
    "_new_shared_cuda": "_new_shared_npu",
}
"""Members of streams and storages by CUDA's names, and the plug-in's."""
_MODULES = {"graphs": "graphs"}
"""Modules that the plug-in has, with other names in them."""
_HOLD_CUDA_STREAMS = lazy_pattern(
    r"^\s*(?:import|from)\s+(?:tensorrt|pycuda|cupy|cuda)\b", re.MULTILINE
)
"""Packages that take CUDA's streams and are reported themselves."""
_NOT_API = ("_", "__")


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one name that NPUs do not have."""
    if isinstance(node, ast.Attribute):
        yield from _attribute(node, file)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        if node.module == "torch.cuda" or node.module.startswith("torch.cuda."):
            part = node.module.split(".")[2:3]
            for alias in node.names:
                yield from _report(node, part[0] if part else alias.name, file)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.startswith("torch.cuda."):
                yield from _report(alias, alias.name.split(".")[2], file)


def _attribute(node: ast.Attribute, file: PythonFile) -> Outcomes:
    if not isinstance(node.ctx, ast.Load):
        return
    head, _, member = (file.name(node) or "").rpartition(".")
    if head == "torch.cuda.memory" and member == HISTORY and is_old_history(file.parent(node)):
        yield _history(node, file)
    elif head == "torch.cuda.memory" and member in RENAMED and not file.is_annotation(node):
        yield from _report(node, member, file, stays=True)
    elif head == "torch.cuda" and not file.is_annotation(node):
        used = file.parent(node) if member == "nvtx" else None
        if used is None or not is_plain_range(file.parent(used), file):
            yield from _report(node, member, file)
    elif head == "torch._C" and member.startswith("_cuda_"):
        yield _private(node, member, file)
    elif node.attr in _OF_OBJECTS:
        yield from _of_object(node, file)


def _private(node: ast.Attribute, member: str, file: PythonFile) -> Remark:
    return file.remark(
        node,
        f"torch._C.{member}",
        Words(
            f"torch._C.{member} exists in builds for CUDA only.",
            f"torch._C.{member} 只存在于 CUDA 版本的 torch 中。",
        ),
        Words(
            "guard it so that it runs on NVIDIA cards only",
            "请加判断，使其只在 NVIDIA 卡上执行",
        ),
        severity=Severity.WORK,
        effort=Effort.MINUTES,
        kind=Kind.UNSUPPORTED,
    )


def is_old_history(call: ast.AST | None) -> bool:
    """Whether a call of `_record_memory_history` has arguments that the plug-in does not accept."""
    if not isinstance(call, ast.Call):
        return False
    first = call.args[0] if call.args else None
    first = next((k.value for k in call.keywords if k.arg == "enabled"), first)
    is_flag = isinstance(first, ast.Constant) and isinstance(first.value, bool)
    return is_flag or any(k.arg not in HISTORY_ARGUMENTS for k in call.keywords)


def _history(node: ast.Attribute, file: PythonFile) -> Remark:
    return file.remark(
        node,
        f"torch.cuda.memory.{HISTORY}",
        Words(
            "The NPU plug-in takes enabled, context, stacks, max_entries and device only, "
            'and "all", "state" or None for enabled.',
            "NPU 插件仅接受 enabled、context、stacks、max_entries、device，且 enabled 为 "
            '"all"、"state" 或 None。',
        ),
        Words('write enabled="all" and max_entries=…', '请改为 enabled="all" 与 max_entries=…'),
        severity=Severity.WORK,
        effort=Effort.MINUTES,
        kind=Kind.UNSUPPORTED,
    )


def _of_object(node: ast.Attribute, file: PythonFile) -> Outcomes:
    """A member of a stream or a storage, unless the file sets such a name itself."""
    call = file.parent(node)
    is_called = isinstance(call, ast.Call) and call.func is node
    if is_called is not node.attr.startswith("_") or re.search(
        rf"\.{node.attr}\s*=[^=]|def {node.attr}\b", file.source.text
    ):
        return
    if _HOLD_CUDA_STREAMS.search(file.source.text):
        return
    other = _OF_OBJECTS[node.attr]
    yield file.remark(
        node,
        node.attr,
        Words(
            f"On NPUs, {node.attr} is called {other}.", f"NPU 上与 {node.attr} 对应的是 {other}。"
        ),
        Words(f"use {other} on NPUs", f"在 NPU 上请使用 {other}"),
        severity=Severity.WORK,
        effort=Effort.MINUTES,
        kind=Kind.UNSUPPORTED,
    )


def _report(node: ast.AST, member: str, file: PythonFile, *, stays: bool = False) -> Outcomes:
    if member in SAME_NAME or member in TENSOR_TYPES or member in _ELSEWHERE:
        return
    if member in file.project.set_on_cuda:
        return
    if member.startswith(_NOT_API):
        return
    if member in RENAMED and file.options.npu_only and not stays:
        return
    yield file.remark(
        node,
        f"torch.cuda.{member}",
        _why(member),
        way_out(member),
        severity=Severity.INFO if _is_shown(member, node, file) else Severity.WORK,
        effort=Effort.MINUTES,
        kind=Kind.UNSUPPORTED,
    )


def _why(member: str) -> Words:
    other = RENAMED.get(member, _MODULES.get(member))
    if other is not None:
        return Words(
            f"torch.cuda.{member} is torch.npu.{other} on NPUs.",
            f"NPU 上与 torch.cuda.{member} 对应的是 torch.npu.{other}。",
        )
    return Words(
        f"torch.cuda.{member} has no counterpart in the NPU plug-in.",
        f"NPU 插件中没有与 torch.cuda.{member} 对应的接口。",
    )


def _is_shown(member: str, node: ast.AST, file: PythonFile) -> bool:
    """Whether this is `print(torch.cuda.get_arch_list())`: the list is empty without CUDA."""
    call = file.parent(node)
    shown = file.parent(call) if member == "get_arch_list" and isinstance(call, ast.Call) else None
    return isinstance(shown, ast.FormattedValue) or (
        isinstance(shown, ast.Call) and getattr(shown.func, "id", "") == "print"
    )


RULE = Rule(
    "JP203",
    Words("CUDA-only name", "仅 CUDA 提供的接口"),
    (ast.Attribute, ast.ImportFrom, ast.Import),
    ("cuda",),
    check,
)
