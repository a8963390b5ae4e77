"""Names that only NVIDIA's software has, those that NPUs have as well, and those without an effect there."""

import re

from jumar.port.context import PythonFile
from jumar.port.npu_api import SAME_NAME, TENSOR_TYPES
from jumar.port.packages import package_of
from jumar.port.patterns import lazy_pattern
from jumar.port.project import OWN
from jumar.port.records import Severity

_SWITCHES = ("torch.backends.cudnn.", "torch.backends.cuda.")
_PRECISION = "torch.set_float32_matmul_precision"
BUILDERS = "torch.utils.cpp_extension."
_VERSIONS = frozenset({"torch.version.cuda", "torch.version.hip"})
_DESPITE_SAME_NAME = frozenset({"get_device_capability", "graph", "make_graphed_callables"})
TELLS_NOTHING = frozenset(
    {
        "is_available", "device_count", "current_device", "get_device_name", "is_initialized",
        "get_device_properties", "is_bf16_supported", "init", "_is_compiled",
    }
)  # fmt: skip
"""Functions of `torch.cuda` that code for CUDA alone calls as well."""
_STEP_OF_A_GRAPH = "torch.compiler.cudagraph_mark_step_begin"
_FOR_GPUS = lazy_pattern(r"cuda|gpu", re.IGNORECASE)
"""What an operator that the repository or a library registers is called if it is for CUDA."""
REPLACEABLE = frozenset({"flash_attn", "xformers", "apex"})
"""Packages whose imports are replaced where possible; what uses them then runs on NPUs."""
_APEX_KERNELS = lazy_pattern(r"apex\.(?:contrib\.|.*(?:Function|FN)(?:\.|$))")
"""Parts of apex that call its compiled extensions; its optimizers and amp have a build for NPUs."""
COMPILED = frozenset({"_C", "_ext"})


def is_switch(name: str, file: PythonFile) -> bool:
    """Whether a name has no effect on NPUs, or stays CUDA's in portable code."""
    activity = name == "torch.profiler.ProfilerActivity.CUDA" and not file.options.npu_only
    return activity or name == _PRECISION or name.startswith(_SWITCHES)


def is_of_cuda(name: str, file: PythonFile, *, elsewhere: bool) -> bool:
    """Whether only CUDA has it; `elsewhere`: it was read in another file of the repository."""
    if name in _VERSIONS or name.startswith(BUILDERS):
        return True
    if name.startswith("torch.cuda."):
        member, _, rest = name.removeprefix("torch.cuda.").partition(".")
        if member in ("nvtx", "amp") or member.startswith("_"):
            return member == "nvtx" and rest not in ("", "range")
        known = member in SAME_NAME or member in TENSOR_TYPES or member == "OutOfMemoryError"
        return member in _DESPITE_SAME_NAME or not known
    if name.startswith("torch.ops."):
        return _FOR_GPUS.search(name) is not None
    if not name or name.startswith(("torch.", OWN)):
        return name == _STEP_OF_A_GRAPH
    if not COMPILED.isdisjoint(name.split(".")):
        return True
    if name.partition(".")[0] in REPLACEABLE and (elsewhere or _is_replaced(name, file)):
        return False
    package = package_of(name)
    known = None if package is None else package.facts()
    needs_work = known is not None and known.severity is Severity.WORK
    return needs_work or _APEX_KERNELS.match(name) is not None


def _is_replaced(name: str, file: PythonFile) -> bool:
    """Whether a name no longer comes from its package."""
    return any(f"{name}.".startswith(f"{n}.") for n in file.replaced)


def is_portable(name: str) -> bool:
    """Whether NPUs have it as well."""
    if name.startswith("torch.cuda."):
        member = name.removeprefix("torch.cuda.").partition(".")[0]
        portable = SAME_NAME | TENSOR_TYPES | {"amp"}
        return member in portable - TELLS_NOTHING - _DESPITE_SAME_NAME
    return name in ("torch.autocast", "torch.distributed.init_process_group")
