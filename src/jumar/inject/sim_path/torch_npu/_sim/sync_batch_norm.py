"""`nn.SyncBatchNorm` over simulated NPUs: torch's own uses kernels that only cards have."""

from typing import Any

import torch
import torch.distributed as dist

_forward = torch.nn.SyncBatchNorm.forward


def _sum(tensor: Any, group: Any) -> Any:
    """The sum over all processes, through which gradients flow."""
    from torch.distributed.nn.functional import all_reduce

    return all_reduce(tensor, group=group)


def normalize(self: Any, rows: Any) -> Any:
    """Normalize with the mean and the variance of the rows of all processes."""
    axes = [axis for axis in range(rows.dim()) if axis != 1]
    shape = [1, -1] + [1] * (rows.dim() - 2)
    group = self.process_group or dist.group.WORLD
    values = rows.float()
    count = values.new_full((1,), values.numel() // values.size(1))
    totals = _sum(torch.cat([values.sum(axes), count]), group)
    number = totals[-1]
    mean = totals[:-1] / number
    centered = values - mean.view(shape)
    variance = _sum(centered.square().sum(axes), group) / number
    if self.track_running_stats:
        _remember(self, mean.detach(), variance.detach() * number / (number - 1))
    normal = centered * torch.rsqrt(variance + self.eps).view(shape)
    if self.affine:
        normal = normal * self.weight.view(shape) + self.bias.view(shape)
    return normal.to(rows.dtype)


def _remember(self: Any, mean: Any, variance: Any) -> None:
    self.num_batches_tracked.add_(1)
    share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
    self.running_mean.lerp_(mean, share)
    self.running_var.lerp_(variance, share)


def _synchronized(self: Any, input: Any) -> Any:
    many = (
        dist.is_available()
        and dist.is_initialized()
        and dist.get_world_size(self.process_group) > 1
    )
    if input.device.type != "npu" or not self.training or not many:
        return _forward(self, input)
    self._check_input_dim(input)
    self._check_non_zero_input_channels(input)
    return normalize(self, input)


def install() -> None:
    """Replace torch's own with it."""
    torch.nn.SyncBatchNorm.forward = _synchronized
