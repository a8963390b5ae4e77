"""Small names of the real `torch_npu.npu.utils` that code in the field imports."""

from typing import Any

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
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_of",
    "get_cann_version",
    "get_soc_version",
    "is_bf16_supported",
    "is_support_inf_nan",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
]


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
