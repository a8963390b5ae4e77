"""Operators compiled from CUDA sources are reported: they have to be rewritten.

So are those that the repository registers for CUDA alone (`device_types="cuda"`)."""

import ast

from jumar.port.context import PythonFile
from jumar.port.records import Effort, Kind, Remark, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_EXTENSIONS = "torch.utils.cpp_extension."
_OLD_MAKER = "torch.utils.ffi.create_extension"
_CUDA_ONLY = "CUDAExtension"
_LOADERS = frozenset({"load", "load_inline", "CppExtension"})


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one extension, or one choice of the class that builds it."""
    if isinstance(node, ast.Call):
        if _compiles_cuda(node, file):
            yield _remark(node.func, file)
        elif (file.name(node.func) or "").startswith("torch.library."):
            yield from _registered(node, file)
    elif isinstance(node, ast.Assign) and file.name(node.value) == _EXTENSIONS + _CUDA_ONLY:
        yield _remark(node.value, file)


def _compiles_cuda(node: ast.Call, file: PythonFile) -> bool:
    name = file.name(node.func) or ""
    if name == _OLD_MAKER:
        return True
    if name == _EXTENSIONS + _CUDA_ONLY:
        # Under another name, it was reported where it was chosen.
        return file.text(node.func).endswith(_CUDA_ONLY)
    member = name.removeprefix(_EXTENSIONS)
    if name == member or member not in _LOADERS:
        return False
    return _has_cuda_source(node) or _has_cuda_options(node, file)


def _registered(node: ast.Call, file: PythonFile) -> Outcomes:
    for keyword in node.keywords:
        if keyword.arg != "device_types" or getattr(keyword.value, "value", None) != "cuda":
            continue
        yield file.remark(
            keyword,
            file.name(node.func) or "",
            Words(
                "This operator is registered for CUDA only; on NPUs, calling it fails.",
                "该算子仅为 CUDA 注册，在 NPU 上调用会报错。",
            ),
            Words(
                'write device_types=("cuda", "npu") if it is plain torch; otherwise register another one',
                '若由 torch 算子组成，请改为 device_types=("cuda", "npu")，否则请另行注册实现',
            ),
            severity=Severity.WORK,
            effort=Effort.HOURS,
            kind=Kind.UNSUPPORTED,
        )


def _remark(node: ast.expr, file: PythonFile) -> Remark:
    return file.remark(
        node,
        file.name(node) or "",
        Words(
            "This operator is compiled from CUDA sources, which NPUs cannot run.",
            "该算子由 CUDA 源码编译，NPU 无法运行。",
        ),
        Words(
            "use an equivalent in torch or torch_npu, or rewrite the operator in Ascend C",
            "请改用 torch 或 torch_npu 的等价算子，或用 Ascend C 重写",
        ),
        severity=Severity.WORK,
        effort=Effort.REWRITE,
        kind=Kind.UNSUPPORTED,
    )


def _has_cuda_source(node: ast.Call) -> bool:
    if any(k.arg in ("cuda_sources", "extra_cuda_cflags") for k in node.keywords):
        return True
    return any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.endswith(".cu")
        for n in ast.walk(node)
    )


def _has_cuda_options(node: ast.Call, file: PythonFile) -> bool:
    """Whether `load(name, **options)` gets options that its function has made for nvcc."""
    function = file.enclosing_function(node)
    return (
        function is not None
        and any(keyword.arg is None for keyword in node.keywords)
        and any(
            isinstance(n, ast.Constant) and n.value in ("extra_cuda_cflags", "cuda_sources")
            for n in ast.walk(function)
        )
    )


RULE = Rule(
    "JP708",
    Words("CUDA extension", "CUDA 扩展算子"),
    (ast.Call, ast.Assign),
    ("Extension", "cpp_extension", "create_extension", "device_types"),
    check,
)
