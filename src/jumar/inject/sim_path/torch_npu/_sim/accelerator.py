"""`torch.accelerator` for simulated devices: what torch would ask a C++ backend comes from
`torch.npu`."""

from typing import Any

import torch

_SAME_NAMES = (
    "current_stream",
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_stream",
    "synchronize",
)


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _capability(device: Any = None) -> Any:
    kinds = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool]
    return {"supported_dtypes": set(kinds)}


def install(npu: Any) -> None:
    """Replace torch's own with these."""
    made = {name: getattr(npu, name) for name in _SAME_NAMES}
    made["get_memory_info"] = npu.mem_get_info
    made["set_device_index"] = made["set_device_idx"] = npu.set_device
    made["current_device_index"] = made["current_device_idx"] = npu.current_device
    made["device_index"] = npu.device
    made["get_device_capability"] = _capability
    made["empty_host_cache"] = _nothing
    for module in (torch.accelerator, torch.accelerator.memory):
        for name, function in made.items():
            if hasattr(module, name):
                setattr(module, name, function)
