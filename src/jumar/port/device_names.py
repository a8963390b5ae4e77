"""What devices are called, and which arguments of torch's functions are devices.

Some values name CUDA without being a device: members of an Enum, keys of a registry, platforms."""

import ast
import re
import sys

from jumar.port.context import PythonFile, name_called
from jumar.port.patterns import lazy_pattern
from jumar.port.project import OWN

NAMED_DEVICE = lazy_pattern(
    r"device|(?:^|_)dev$|^(?:map_)?location$|^accelerator_type$", re.IGNORECASE
)
_NOT_DEVICE = lazy_pattern(
    r"visible|device_(?:count|num|order|maps|ids?|list|index|module|platform|backend|vendor)|num_device",
    re.IGNORECASE,
)
OTHER_DEVICES = frozenset({"cpu", "mps", "xpu", "npu", "meta", "hpu", "mlu", "tpu"})
TEXT_ARGUMENTS = {
    "torch.device": 0,
    "torch.autocast": 0,
    "torch.amp.autocast": 0,
    "torch.amp.autocast_mode.autocast": 0,
    "torch.amp.GradScaler": 0,
    "torch.GradScaler": 0,
    "torch.is_autocast_enabled": 0,
    "torch.set_autocast_enabled": 0,
    "torch.get_autocast_dtype": 0,
    "torch.set_autocast_dtype": 0,
    "torch.distributed.init_device_mesh": 0,
    "torch.distributed.device_mesh.init_device_mesh": 0,
    "torch.distributed.DeviceMesh": 0,
    "torch.distributed.device_mesh.DeviceMesh": 0,
    "torch.distributed.tensor.init_device_mesh": 0,
    "torch.distributed.tensor.DeviceMesh": 0,
    "torch.distributed._tensor.init_device_mesh": 0,
    "torch.distributed._tensor.DeviceMesh": 0,
    "torch.distributed._tensor.device_mesh.init_device_mesh": 0,
    "torch.distributed._tensor.device_mesh.DeviceMesh": 0,
    "torch.distributed.DeviceMesh.from_group": 1,
    "torch.distributed.device_mesh.DeviceMesh.from_group": 1,
    "torch.distributed.tensor.DeviceMesh.from_group": 1,
}
"""The position of the argument that must be a device's name."""
OBJECT_ARGUMENTS = {
    "torch.load": 1,
    "torch.Generator": 0,
    "torch.Stream": 0,
    "torch.Event": 0,
    "torch.set_default_device": 0,
    "torch.cuda.set_rng_state": 1,
    "torch.cuda.set_per_process_memory_fraction": 1,
    "torch.distributed.get_default_backend_for_device": 0,
}
"""The position of the argument that may be a `torch.device`."""


def is_device_name(name: str) -> bool:
    """Whether a variable, parameter or key of this name holds a device."""
    return bool(NAMED_DEVICE.search(name)) and not _NOT_DEVICE.search(name)


_NO_DEVICES = lazy_pattern(
    r"(?:torch|pytest|setuptools|numpy|numba|cupy|triton|tilelang|click|rich|wandb|packaging|cffi"
    r"|pybind11|omegaconf|hydra)(?:\.|$)"
)
"""Packages whose functions take texts that happen to name CUDA; torch's are known one by one."""


def takes_devices(function: str) -> bool:
    """Whether a text that looks like a device is one for a function of another package."""
    root = function.partition(".")[0]
    return (
        "." in function
        and not function.startswith(OWN)
        and root not in sys.stdlib_module_names
        and not _NO_DEVICES.match(function)
    )


_FOREIGN = frozenset(
    {"caffe2", "ctranslate2", "faster_whisper", "jax", "onnxruntime", "tensorflow", "tvm"}
)
"""Packages with their own devices; none of them knows torch's NPU names."""


def is_foreign(name: str) -> bool:
    """Whether a function has devices of its own, or builds for CUDA."""
    return name.partition(".")[0] in _FOREIGN or name.startswith("torch.utils.cpp_extension.")


PLATFORMS = frozenset(
    {"rocm", "hip", "nvidia", "amd", "opencl", "vulkan", "metal", "triton", "tensorrt", "openvino"}
)
"""What stands beside `cuda` where it names a platform or an implementation, not a device."""
_REGISTERS = re.compile(r"regist(?:er|ry)|custom_op$|^impl$", re.IGNORECASE)
_ENUM = lazy_pattern(r"(?:Enum|Flag)$")
_CI_FOLDERS = frozenset({".github", ".ci", ".circleci", ".buildkite", ".gitlab"})


def is_label(node: ast.expr, parent: ast.AST | None, file: PythonFile) -> bool:
    """Whether a value only names CUDA: a member of an Enum, a key that something is registered under,
    a platform among others, a cell of a CI matrix."""
    if isinstance(node, ast.IfExp) and any(
        isinstance(n, ast.Constant) and n.value in PLATFORMS for n in ast.walk(node.test)
    ):
        return True
    if isinstance(parent, (ast.Assign, ast.AnnAssign)):
        owner = file.parent(parent)
        return isinstance(owner, ast.ClassDef) and (_is_enum(owner, file) or _has_own_name(parent))
    if isinstance(parent, ast.DictComp):
        return parent.key is node
    if isinstance(parent, (ast.List, ast.Tuple, ast.Set)) and beside(PLATFORMS, parent):
        return True
    call = file.parent(parent) if isinstance(parent, ast.keyword) else parent
    if isinstance(call, ast.Call) and _REGISTERS.search(name_called(call)):
        return True
    return not _CI_FOLDERS.isdisjoint(file.path.split("/"))


def _is_enum(owner: ast.ClassDef, file: PythonFile) -> bool:
    """Whether a class is an Enum, by its own bases or by those of the repository's classes."""
    for base in owner.bases:
        if _ENUM.search((file.name(base) or file.text(base)).rpartition(".")[2]):
            return True
        above = file.class_named(base)
        if above is not None and above is not owner:
            return any(_ENUM.search(ast.unparse(b)) for b in above.bases)
    return False


def _has_own_name(node: ast.Assign | ast.AnnAssign) -> bool:
    """Whether this is `CUDA = "cuda"`: the constant says what its value is."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(t, ast.Name) and t.id == "CUDA" for t in targets)


def beside(words: frozenset[str], node: ast.expr) -> bool:
    """Whether one of some words is an alternative in an expression."""
    if isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.BoolOp):
        parts = node.values
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        parts = node.elts
    else:
        return isinstance(node, ast.Constant) and node.value in words
    return any(beside(words, part) for part in parts)
