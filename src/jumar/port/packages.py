"""What an import brings in, and which CUDA-only package it belongs to.

Packages that are neither in the table (`packages.tsv`) nor named for CUDA (`knn_cuda`) are not
known to be tied to it and are not reported."""

import ast
import re

from jumar.port.cuda_packages import PACKAGES, Facts, Package
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Effort, Severity, Words

NAMED_FOR_CUDA = "JP626"
_NAMED_FOR_CUDA = lazy_pattern(r"_cuda(?:_|$)|^cuda(?:_(?:ext|lib|kernel|op)s?)?$")
_CUDA_SUFFIX = lazy_pattern(r"-cu(?:da)?\d+\w*$")


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
        is_inside = dotted == known.module or dotted.startswith(f"{known.module}.")
        if is_inside and (not known.only or _has_part(dotted, known.only)):
            return known
    return _named_for_cuda(root) if _NAMED_FOR_CUDA.search(root) else None


def of_distribution(name: str) -> Package | None:
    """The record of what a requirement installs, by the distribution's name."""
    return BY_DISTRIBUTION.get(plain(base_name(name)))


def of_source(repository: str) -> Package | None:
    """The record of what a repository (`owner/name`) builds."""
    return _BY_SOURCE.get(repository.lower())


def base_name(name: str) -> str:
    """A distribution's name without the CUDA version that some have (`cupy-cuda12x`)."""
    return _CUDA_SUFFIX.sub("", name)


def plain(name: str) -> str:
    """A distribution's name in the one spelling that packaging tools compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _named_for_cuda(module: str) -> Package:
    why = Words(
        f"{module} has CUDA in its name: its compiled kernels do not run on NPUs.",
        f"{module} 是 CUDA 编译的算子，NPU 无法运行。",
    )
    advice = Words(
        "use an equivalent in torch or torch_npu, or rewrite the operator in Ascend C",
        "请改用 torch 或 torch_npu 的等价算子，或用 Ascend C 重写",
    )
    facts = Facts(Severity.WORK, Effort.HOURS, why, advice)
    return Package(NAMED_FOR_CUDA, module, facts, guards_cuda=True)


def _has_part(dotted: str, parts: tuple[str, ...]) -> bool:
    return any(part in dotted.lower() for part in parts)


_BY_ROOT: dict[str, list[Package]] = {}
for _one in PACKAGES:
    _BY_ROOT.setdefault(_one.module.partition(".")[0], []).append(_one)
ROOTS = tuple(_BY_ROOT)
"""The top-level packages in the table."""
BY_DISTRIBUTION = {plain(name): one for one in PACKAGES for name in one.distributions}
"""The rows of the table by the names in requirement lists."""
_PARTLY = frozenset({"pytorch/pytorch"})
"""Repositories that also build what is not tied to CUDA."""
_BY_SOURCE = {
    one.source.lower(): one
    for one in sorted(PACKAGES, key=lambda p: (bool(p.distributions), -len(p.module)))
    if one.source not in _PARTLY
}
