"""`torch.npu.amp.GradScaler`: torch's own, for the device."""

from typing import Any

import torch

__all__ = ["GradScaler"]


_start = torch.amp.GradScaler._lazy_init_scale_growth_tracker


def _start_in_float32(self: Any, dev: Any) -> None:
    """Torch inverts the scale in float64; the plug-in, on chips without it, in float32."""
    _start(self, dev)
    scale: Any = self._scale
    if scale.device.type == "npu":
        scale.double = scale.float


torch.amp.GradScaler._lazy_init_scale_growth_tracker = _start_in_float32


class GradScaler(torch.amp.GradScaler):
    """See torch.amp.GradScaler; `dynamic=False` keeps the scale as it is."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
    ) -> None:
        self._dynamic = dynamic
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    def update(self, new_scale: Any = None) -> None:
        """Adapt the scale, unless it is fixed."""
        if self._dynamic or new_scale is not None:
            super().update(new_scale)
        else:
            self._per_optimizer_states.clear()

    @staticmethod
    def get_npu_overflow_flag() -> bool:
        """Whether the chip's status shows an overflow; asked of every chip, here it never does."""
        return False

    @staticmethod
    def clear_npu_overflow_flag() -> None:
        """Clear the chip's status."""
