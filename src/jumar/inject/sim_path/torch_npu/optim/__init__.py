"""The plug-in's fused optimizers: torch's own, whose arithmetic they share."""

from typing import Any

import torch

__all__ = [
    "NpuFusedAdadelta",
    "NpuFusedAdam",
    "NpuFusedAdamW",
    "NpuFusedRMSprop",
    "NpuFusedSGD",
]


class _Fused:
    """What all of them have beside torch's own."""

    def npu_fused_clip_grad_norm_(
        self: Any, max_norm: float, norm_type: float = 2.0
    ) -> torch.Tensor:
        """Scale the gradients of all groups to a norm."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)


class NpuFusedAdam(_Fused, torch.optim.Adam):
    """See torch.optim.Adam."""


class NpuFusedAdamW(_Fused, torch.optim.AdamW):
    """See torch.optim.AdamW."""


class NpuFusedSGD(_Fused, torch.optim.SGD):
    """See torch.optim.SGD; unlike it, the step has to be given as `lr`."""


class NpuFusedAdadelta(_Fused, torch.optim.Adadelta):
    """See torch.optim.Adadelta."""


class NpuFusedRMSprop(_Fused, torch.optim.RMSprop):
    """See torch.optim.RMSprop."""
