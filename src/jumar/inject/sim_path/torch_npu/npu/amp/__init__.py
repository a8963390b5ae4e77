"""`torch.npu.amp`: autocast and gradient scaling."""

import importlib
from typing import Any

from torch_npu.npu.amp import autocast_mode, common, grad_scaler
from torch_npu.npu.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from torch_npu.npu.amp.common import amp_definitely_not_available
from torch_npu.npu.amp.grad_scaler import GradScaler

__all__ = [
    "GradScaler",
    "amp_definitely_not_available",
    "autocast",
    "autocast_mode",
    "common",
    "custom_bwd",
    "custom_fwd",
    "grad_scaler",
]


def __getattr__(name: str) -> Any:
    # It needs torch's FSDP, which takes as long to import as torch itself.
    if name == "sharded_grad_scaler":
        return importlib.import_module("torch_npu.npu.amp.sharded_grad_scaler")
    raise AttributeError(f"module 'torch_npu.npu.amp' has no attribute {name!r}")
