"""What an import brings in, and which CUDA-only package it belongs to.

Packages that are neither in the table (`cuda_packages.py`) nor named for CUDA (`knn_cuda`) are not
known to be tied to it and are not reported."""

import ast
import re

from jumar.port.cuda_packages import PACKAGES, Package, package
from jumar.port.records import Effort, Severity

NAMED_FOR_CUDA = "JP626"
_NAMED_FOR_CUDA = re.compile(r"_cuda(?:_|$)|^cuda(?:_(?:ext|lib|kernel|op)s?)?$")
_PARTLY_COMPILED = frozenset({"detectron2.layers", "torchvision.ops"})
"""Modules in which only a few operators are not plain torch."""


def imported(node: ast.AST) -> list[str]:
    """The dotted names that an import from elsewhere brings in."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    assert isinstance(node, ast.ImportFrom)
    if node.level or not node.module:
        return []
    return [f"{node.module}.{alias.name}" for alias in node.names]


def package_of(dotted: str) -> Package | None:
    """The record that an imported name falls under."""
    root = dotted.partition(".")[0]
    for known in _BY_ROOT.get(root, ()):
        if dotted == known.module or dotted.startswith(f"{known.module}."):
            harmless = known.module in _PARTLY_COMPILED and not _is_compiled(dotted)
            return None if harmless else known
    return _named_for_cuda(root) if _NAMED_FOR_CUDA.search(root) else None


def _named_for_cuda(module: str) -> Package:
    return package(
        NAMED_FOR_CUDA,
        module,
        Severity.WORK,
        Effort.HOURS,
        "use an equivalent in torch or torch_npu, or rewrite the operator in Ascend C",
        "请改用 torch 或 torch_npu 的等价算子，或用 Ascend C 重写",
        f"{module} has CUDA in its name: its compiled kernels do not run on NPUs.",
        f"{module} 是 CUDA 编译的算子，NPU 无法运行。",
    )


def _is_compiled(dotted: str) -> bool:
    return any(part in dotted.lower() for part in ("nms", "roi", "deform"))


_BY_ROOT: dict[str, list[Package]] = {}
for _one in PACKAGES:
    _BY_ROOT.setdefault(_one.module.partition(".")[0], []).append(_one)
