"""What devices are called, and which arguments of torch's functions are devices."""

import re
import sys

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
