"""Data-parallel training of one rank: parallel.py DEVICE STEPS FOLDER KIND… (ddp, fsdp, fsdp2, tensor)."""

import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

KIND_OF_DEVICE, STEPS, FOLDER, *KINDS = sys.argv[1:]
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


def make(kind: str) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)
    )
    model.to(device)
    if kind == "ddp":
        ids = [rank] if device.type == "npu" else None
        return nn.parallel.DistributedDataParallel(model, device_ids=ids)
    if kind == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(model, device_id=device)
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    if kind == "tensor":
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            RowwiseParallel,
            parallelize_module,
        )

        model = nn.Sequential(*model, nn.ReLU(), nn.Linear(10, 10).to(device))
        return parallelize_module(model, mesh, {"4": ColwiseParallel(), "6": RowwiseParallel()})
    from torch.distributed.fsdp import fully_shard

    fully_shard(model, mesh=mesh)
    torch.manual_seed(7)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.1)
    return model


def train(model: nn.Module) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(int(STEPS)):
        x = torch.randn(4, 3, 8, 8, generator=generator).to(device)
        y = torch.randint(0, 10, (4,), generator=generator).to(device)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


for kind in KINDS:
    model = make(kind)
    train(model)
    local = [p.to_local() if hasattr(p, "to_local") else p for p in model.parameters()]
    assert all(p.device == device for p in local)
    torch.save([p.detach().cpu() for p in local], f"{FOLDER}/{kind}.{KIND_OF_DEVICE}.{rank}")
mean = torch.full((2,), float(rank), device=device)
dist.all_reduce(mean, op=dist.ReduceOp.AVG)
gathered = [torch.zeros(2, device=device) for _ in range(dist.get_world_size())]
dist.all_gather(gathered, torch.full((2,), float(rank), device=device))
torch.save([mean.cpu(), *(t.cpu() for t in gathered)], f"{FOLDER}/sums.{KIND_OF_DEVICE}.{rank}")
dist.destroy_process_group()
# Torch's wrapper of the model still holds the group, and its threads abort at times at the very end.
os._exit(0)
