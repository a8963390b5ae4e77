"""The plug-in's fused optimizers: torch's own, whose arithmetic they share."""

from typing import Any

import torch

from torch_npu._sim import absent

__all__ = [
    "NpuFusedAdadelta",
    "NpuFusedAdam",
    "NpuFusedAdamW",
    "NpuFusedOptimizerBase",
    "NpuFusedRMSprop",
    "NpuFusedSGD",
]


__getattr__ = absent.of_module(__name__)


class NpuFusedOptimizerBase(torch.optim.Optimizer):
    """What all of them have beside torch's own."""

    def clip_grad_norm_fused_(self: Any, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scale the gradients of all groups to a norm."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)

    def get_combined_params(self) -> Any:
        """The parameters in one piece of memory; these are not combined."""
        absent.refuse("torch_npu.optim.NpuFusedOptimizerBase.get_combined_params")

    def get_combined_grads(self) -> Any:
        """The gradients in one piece of memory; these are not combined."""
        absent.refuse("torch_npu.optim.NpuFusedOptimizerBase.get_combined_grads")


class NpuFusedAdam(NpuFusedOptimizerBase, torch.optim.Adam):
    """See torch.optim.Adam."""


class NpuFusedAdamW(NpuFusedOptimizerBase, torch.optim.AdamW):
    """See torch.optim.AdamW."""


class NpuFusedSGD(NpuFusedOptimizerBase, torch.optim.SGD):
    """See torch.optim.SGD; unlike it, the step has to be given as `lr`."""


class NpuFusedAdadelta(NpuFusedOptimizerBase, torch.optim.Adadelta):
    """See torch.optim.Adadelta."""


class NpuFusedRMSprop(NpuFusedOptimizerBase, torch.optim.RMSprop):
    """See torch.optim.RMSprop."""
