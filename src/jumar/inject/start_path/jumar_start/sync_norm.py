"""`nn.SyncBatchNorm` on the CPU, which torch has for cards only.

It is what it stands for: a batch norm of the rows of all processes, of which each keeps its own."""

from typing import Any, Tuple

import torch
import torch.distributed as dist
from torch.nn.modules.batchnorm import _BatchNorm


class _Gathered(torch.autograd.Function):
    """The rows of all processes, one after the other; all of them learn from what each does."""

    @staticmethod
    def forward(ctx: Any, rows: Any, group: Any) -> Any:
        ctx.group, ctx.mine = group, _mine(rows, group)
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, rows.contiguous(), group=group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Tuple[Any, None]:
        total = grads[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return total[ctx.mine], None


def _mine(rows: Any, group: Any) -> slice:
    start = dist.get_rank(group) * len(rows)
    return slice(start, start + len(rows))


def _forward(self: Any, input: Any) -> Any:
    group = self.process_group or (dist.group.WORLD if dist.is_initialized() else None)
    if group is None or not self.training or dist.get_world_size(group) == 1:
        return _BatchNorm.forward(self, input)
    rows = _Gathered.apply(input, group)
    return _BatchNorm.forward(self, rows)[_mine(input, group)]


def install() -> None:
    """Put it in the place of torch's own, and let DDP take it."""
    torch.nn.SyncBatchNorm.forward = _forward
    parallel = torch.nn.parallel.DistributedDataParallel
    parallel._passing_sync_batchnorm_handle = lambda self, module: None
