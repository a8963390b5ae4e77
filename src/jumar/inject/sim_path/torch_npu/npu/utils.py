"""Small names of the real `torch_npu.npu.utils` that code in the field imports."""

import math
from typing import Any

import torch

from torch_npu._sim import absent
from torch_npu._sim.place import SETTINGS
from torch_npu.npu.devices import (
    current_device,
    device,
    device_index,
    device_of,
    get_soc_version,
    is_bf16_supported,
    set_device,
    synchronize,
)
from torch_npu.npu.streams import current_stream, default_stream, set_stream, stream

__all__ = [
    "check_uce_in_memory",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_of",
    "erase_stream",
    "get_cann_version",
    "get_soc_version",
    "is_bf16_supported",
    "is_support_inf_nan",
    "npu_check_overflow",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
]

__getattr__ = absent.of_module(__name__)


def _get_device_index(  # pyright: ignore[reportUnusedFunction]  # imported by code in the field
    device: Any, optional: bool = False, allow_cpu: bool = False
) -> int:
    if allow_cpu and str(device).startswith("cpu"):
        return -1
    if device is None and not optional:
        raise ValueError(
            "Expected a npu device with a specified index or an integer, but got: None"
        )
    return device if type(device) is int else device_index(device)


def is_support_inf_nan() -> bool:
    """Whether overflow gives infinity, as it does from the 910B on."""
    return SETTINGS.chip.has_infinity


def get_cann_version(module: str = "CANN") -> str:
    """The version of the toolkit; there is none below a simulation."""
    return ""


def current_blas_handle() -> int:
    """A handle that nothing uses."""
    return 0


def check_uce_in_memory(device_id: int) -> int:
    """The kind of memory fault found: none."""
    device_index(device_id)
    return 0


def npu_check_overflow(grad: Any) -> bool:
    """Whether the sum of a gradient is infinite or not a number."""
    total = float(grad.float().sum()) if isinstance(grad, torch.Tensor) else float(grad)
    return not math.isfinite(total)


def erase_stream(tensor: torch.Tensor, stream: Any) -> None:
    """Forget that a stream uses a tensor."""
