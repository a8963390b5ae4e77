"""`nn.SyncBatchNorm` on the CPU; torch only has it for cards.

The arithmetic, plain torch over any process group, is that of the simulated NPUs: another order of
summation would differ in the last bit, and a proof would report that as a bug in the port."""

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.modules.batchnorm import _BatchNorm

from jumar_start import simulation


def install() -> None:
    """Replace torch's own with it, and make DDP accept it."""
    normalize = simulation.part("sync_batch_norm").normalize

    def forward(self: Any, input: Any) -> Any:
        is_one = not dist.is_initialized() or dist.get_world_size(self.process_group) == 1
        if is_one or not self.training:
            return _BatchNorm.forward(self, input)
        return normalize(self, input)

    torch.nn.SyncBatchNorm.forward = forward
    parallel = torch.nn.parallel.DistributedDataParallel
    parallel._passing_sync_batchnorm_handle = lambda self, module: None
