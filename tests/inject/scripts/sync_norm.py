"""One rank of a SyncBatchNorm: all ranks together are one BatchNorm over all rows."""

import os

import torch
import torch.distributed as dist
from torch import nn

rank = int(os.environ["LOCAL_RANK"])
torch.npu.set_device(rank)
dist.init_process_group("hccl")
rows = torch.arange(64.0).view(8, 2, 4).sin()
whole, plain = rows.clone().requires_grad_(), nn.BatchNorm1d(2)
expected = plain(whole)
expected.pow(3).sum().backward()
mine = slice(rank * 4, rank * 4 + 4)
part = rows[mine].npu().requires_grad_()
norm = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(2))).npu()
found = norm(part)
found.pow(3).sum().backward()
for one, other in (
    (found, expected[mine]),
    (part.grad, whole.grad[mine]),
    (norm[0].running_mean, plain.running_mean),
    (norm[0].running_var, plain.running_var),
):
    assert one.device == torch.device("npu", rank)
    torch.testing.assert_close(one.cpu(), other)
dist.destroy_process_group()
