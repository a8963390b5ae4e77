"""`torch.npu.amp.GradScaler`: torch's own, for the device."""

from typing import Any

import torch

__all__ = ["GradScaler"]


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
