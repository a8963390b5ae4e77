"""The scaler for sharded models."""

from typing import Any

from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler as _ShardedGradScaler

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(_ShardedGradScaler):
    """Torch's own, for the device."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(device="npu", **kwargs)
