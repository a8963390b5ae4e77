"""`torch.npu.amp`: autocast and gradient scaling."""

from torch_npu.npu.amp import autocast_mode, common, grad_scaler, sharded_grad_scaler
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
    "sharded_grad_scaler",
]
