"""One rank of a SyncBatchNorm: all ranks together are one BatchNorm over all rows.

`torchrun sync_norm.py npu|cuda`; where cuda means the CPU, tensors say so."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

rank = int(os.environ["LOCAL_RANK"])
kind = sys.argv[1]
getattr(torch, kind).set_device(rank)
dist.init_process_group("hccl" if kind == "npu" else "nccl")
rows = torch.arange(64.0).view(8, 2, 4).sin()
whole, plain = rows.clone().requires_grad_(), nn.BatchNorm1d(2)
expected = plain(whole)
expected.pow(3).sum().backward()
mine = slice(rank * 4, rank * 4 + 4)
part = rows[mine].to(kind).requires_grad_()
norm = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(2))).to(kind)
found = nn.parallel.DistributedDataParallel(norm, device_ids=[rank])(part)
found.pow(3).sum().backward()
for one, other in (
    (found, expected[mine]),
    (part.grad, whole.grad[mine]),
    (norm[0].running_mean, plain.running_mean),
    (norm[0].running_var, plain.running_var),
):
    assert kind == "cuda" or one.device == torch.device("npu", rank)
    torch.testing.assert_close(one.cpu(), other)
dist.destroy_process_group()
