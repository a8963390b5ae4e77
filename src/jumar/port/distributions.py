"""What a requirement asks for: distributions tied to CUDA, by the names in requirement lists."""

import re
from typing import NamedTuple

from jumar.port.packages import Package, base_name, newest, of_distribution, of_source, plain
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Effort, Severity, Words

CODE = "JP506"
_NAME = lazy_pattern(r"^\s*-?\s*[\"']?(?:[\w./-]+::)?(?P<name>[A-Za-z0-9][\w.-]*)(?!\w*:)")
_WHEEL = lazy_pattern(r"/(?P<name>[A-Za-z0-9_.]+?)-[\d$%{][^/\s]*\.whl\b")
_REPOSITORY = lazy_pattern(
    r"://[\w.@-]+/(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?(?=[@#/\s\"']|$)"
)
_ADDRESS = lazy_pattern(r"^\s*(?:-e\s+|-\s*)?[\"']?(?:git\+)?(?:https?|ssh|git)://")
_CUDA_BUILD = lazy_pattern(r"\+cu\d+|/whl/(?:\w+/)?cu\d+")
_CUDA_LIBRARY = lazy_pattern(
    r"nvidia-[\w-]+-cu\d+|cuda-?toolkit|pytorch-cuda|cuda(?:-(?:c(?:ccl|ommand|ompiler|rt|u[do])"
    r"|cupti|cuxxfilt|demo|documentation|driver|gdb|libraries|memcheck|nsight|nv|opencl|profiler|runtime"
    r"|sanitizer|tools|version|visual)[\w-]*)?|cudnn|nccl"
    r"|lib(?:cu(?:blas|dnn|fft|file|rand|solver|sparse)|nv(?:jpeg|jitlink|toolsext)|npp)(?:-dev)?"
    r"|gds-tools|nsight-(?:compute|systems)"
)
_JAX_FOR_CUDA = lazy_pattern(r"jax(?:lib)?\s*\[[^]]*\bcuda|jax[_-]cuda\d+[_-]p", re.IGNORECASE)
_TORCH = frozenset({"torch", "torchvision", "torchaudio", "pytorch"})
_MARKER = lazy_pattern(r"[;@#]")
"""What follows the versions: a condition, an address, a comment."""
_VENDOR = "Ascend"
"""The owner of the builds for NPUs."""


class Tied(NamedTuple):
    """Why a requirement needs a different choice."""

    subject: str
    why: Words
    advice: Words
    severity: Severity
    effort: Effort

    @property
    def is_library(self) -> bool:
        """Whether this is one of CUDA's own libraries."""
        return self.advice is _LIBRARY

    def when_optional(self) -> "Tied":
        """The same for an optional requirement."""
        return self._replace(severity=Severity.INFO, effort=Effort.NONE)


def _cuda_build(subject: str, advice: Words) -> Tied:
    why = Words("This asks for a CUDA build.", "该依赖指定了 CUDA 版本。")
    return Tied(subject, why, advice, Severity.LIMIT, Effort.MINUTES)


TORCH_BUILD = _cuda_build(
    "torch",
    Words(
        "install the CPU build of torch and the matching torch_npu",
        "请安装 CPU 版 torch 及与之匹配的 torch_npu",
    ),
)
OTHER_BUILD = _cuda_build(
    "CUDA build", Words("install a build without CUDA", "请安装不含 CUDA 的版本")
)
_LIBRARY = Words(
    "remove it: CANN takes the place of CUDA's libraries", "请删除：NPU 上由 CANN 代替 CUDA 库"
)
_WITHOUT_JAX = Words(
    "install jax without this: JAX has no backend for NPUs and computes on the CPU there",
    "请安装不含该选项的 jax：JAX 没有 NPU 后端，只能在 CPU 上计算",
)
_GPU_BUILDS = {
    "onnxruntime": Words("install onnxruntime-cann", "请安装 onnxruntime-cann"),
    "faiss": Words("install faiss-cpu", "请安装 faiss-cpu"),
    "paddlepaddle": Words(
        "install paddlepaddle and paddle-custom-npu", "请安装 paddlepaddle 与 paddle-custom-npu"
    ),
    "tensorflow": Words(
        "install the CPU build of tensorflow and Ascend's adapter for it",
        "请安装 CPU 版 tensorflow 与昇腾 TF Adapter",
    ),
    "mindspore": Words("install mindspore, which supports NPUs", "请安装支持 NPU 的 mindspore"),
}
"""Packages whose build for GPUs is a distribution of its own, `-gpu`."""


def tied(requirement: str) -> Tied | None:
    """What to report about one requirement; None for most."""
    name, versions = _named(requirement)
    package = of_distribution(name) or _of_repository(requirement)
    if package is not None:
        facts = package.facts(newest(versions))
        if facts is None:
            return None
        subject = base_name(name) if of_distribution(name) else package.module.partition(".")[0]
        found = Tied(subject, facts.why, facts.advice, facts.severity, facts.effort)
        return found.when_optional() if package.installs_anywhere else found
    build = re.sub(r"-(?:gpu|cu\d+)$", "", name)
    if _JAX_FOR_CUDA.match(requirement.strip(" \t-'\"")):
        return _cuda_build(name, _WITHOUT_JAX)
    if build != name and build in _GPU_BUILDS:
        return _cuda_build(name, _GPU_BUILDS[build])
    if _CUDA_LIBRARY.fullmatch(name):
        return _cuda_build(name, _LIBRARY)
    if _CUDA_BUILD.search(requirement):
        # A line of its own may only name an index of wheels.
        is_for_torch = name in _TORCH or name in ("", "index-url", "extra-index-url", "find-links")
        build = TORCH_BUILD if is_for_torch else OTHER_BUILD
        return build._replace(subject=name or requirement.strip())
    return None


def is_torch(requirement: str) -> bool:
    """Whether a requirement asks for torch itself or the packages that are built with it."""
    return _named(requirement)[0] in _TORCH


def _named(requirement: str) -> tuple[str, str]:
    """The distribution that a requirement asks for, and its versions."""
    if _ADDRESS.match(requirement):
        wheel = _WHEEL.search(requirement)
        return (plain(wheel["name"]), "") if wheel is not None else ("", "")
    match = _NAME.match(requirement)
    if match is None:
        return "", ""
    return match["name"].lower(), _MARKER.split(requirement[match.end() :])[0]


def _of_repository(requirement: str) -> Package | None:
    """The package that a requirement takes from its repository: `git+https://…/flash-attention`."""
    found = _REPOSITORY.search(requirement) if _ADDRESS.match(requirement) else None
    if found is None or found["owner"] == _VENDOR:
        return None
    return of_distribution(found["name"]) or of_source(f"{found['owner']}/{found['name']}")
