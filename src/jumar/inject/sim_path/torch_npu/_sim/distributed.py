"""Process groups of backend `hccl`, implemented by gloo.

Device tensors are in the host's memory, so gloo can use them directly; only its name changes. With
CUDA as the backend, gloo copies through the host."""

import functools
from typing import Any

import torch
import torch.distributed as dist

from torch_npu._sim import collectives, dtensor, functional, gentle_end, hccl
from torch_npu._sim.place import SETTINGS
from torch_npu._sim.watch import WATCH


def _create(store: Any, rank: int, size: int, timeout: Any) -> Any:
    return dist.ProcessGroupGloo(store, rank, size, timeout)


def _tell_whether_it_syncs() -> None:
    """Inside `no_sync` a backward pass of DDP does less, which nothing else shows."""
    parallel: Any = torch.nn.parallel.DistributedDataParallel
    forward = parallel.forward

    @functools.wraps(forward)
    def telling(self: Any, *args: Any, **kwargs: Any) -> Any:
        WATCH.note(self.require_backward_grad_sync)
        return forward(self, *args, **kwargs)

    parallel.forward = telling


def install() -> None:
    """Register `hccl`."""
    if not dist.is_available():
        return
    gentle_end.install()
    devices = ["npu", "cpu"] if SETTINGS.backend == "cpu" else ["npu", "cpu", "cuda"]
    dist.Backend.register_backend("hccl", _create, devices=devices)
    dist.is_hccl_available = lambda: True
    hccl.install()
    functional.install()
    if SETTINGS.checks:
        _tell_whether_it_syncs()
    dist.Backend.default_device_backend_map["npu"] = "hccl"
    for kind in (dist.ProcessGroup, dist.ProcessGroupGloo):
        kind.get_hccl_comm_name = collectives.comm_name
    dtensor.watch_meshes()
