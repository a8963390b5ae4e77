"""Data-parallel training of one rank: parallel.py DEVICE STEPS FILE KIND (ddp, fsdp, fsdp2, tensor)."""

import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

KIND_OF_DEVICE, STEPS, FILE, KIND = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.set_num_threads(1)
rank = int(os.environ["LOCAL_RANK"])
if KIND_OF_DEVICE == "npu":
    import torch_npu  # noqa: F401

    torch.npu.set_device(rank)
    dist.init_process_group("hccl")
    assert dist.get_backend() == "hccl"
else:
    dist.init_process_group("gloo")
device = torch.device(f"npu:{rank}" if KIND_OF_DEVICE == "npu" else "cpu")
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)
)
model.to(device)
if KIND == "ddp":
    ids = [rank] if device.type == "npu" else None
    model = nn.parallel.DistributedDataParallel(model, device_ids=ids)
elif KIND == "fsdp":
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(model, device_id=device)
elif KIND == "tensor":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    model = nn.Sequential(*model, nn.ReLU(), nn.Linear(10, 10).to(device))
    parallelize_module(model, mesh, {"4": ColwiseParallel(), "6": RowwiseParallel()})
else:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    fully_shard(model, mesh=init_device_mesh(device.type, (dist.get_world_size(),)))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
generator = torch.Generator().manual_seed(rank)
for _ in range(STEPS):
    x = torch.randn(4, 3, 8, 8, generator=generator).to(device)
    y = torch.randint(0, 10, (4,), generator=generator).to(device)
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
mean = torch.full((2,), float(rank), device=device)
dist.all_reduce(mean, op=dist.ReduceOp.AVG)
gathered = [torch.zeros(2, device=device) for _ in range(dist.get_world_size())]
dist.all_gather(gathered, torch.full((2,), float(rank), device=device))
local = [p.to_local() if hasattr(p, "to_local") else p for p in model.parameters()]
assert all(p.device == device for p in local)
weights = [p.detach().cpu() for p in local]
torch.save([*weights, mean.cpu(), *(t.cpu() for t in gathered)], f"{FILE}.{rank}")
dist.destroy_process_group()
# Torch's wrapper of the model still holds the group, and its threads abort at times at the very end.
os._exit(0)
