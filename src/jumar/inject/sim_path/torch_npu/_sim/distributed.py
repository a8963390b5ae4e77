"""Process groups of backend `hccl`, carried by gloo.

Device tensors lie in the host's memory, so gloo takes them as they are; only its name changes. With
CUDA as the backend gloo copies through the host."""

import atexit
import functools
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from torch_npu._sim import collectives, dtensor, refuse
from torch_npu._sim import tensor as device_tensor
from torch_npu._sim.place import SETTINGS

_TASKS = Path("/proc/self/task")
_GLOO_THREAD = "pt_gloo_runloop"
_LOOK_S = 0.005
_MOST_LOOKS = 1000


def _create(store: Any, rank: int, size: int, timeout: Any) -> Any:
    return dist.ProcessGroupGloo(store, rank, size, timeout)


def _check_host_tensors(function: Any) -> Any:
    """hccl carries device tensors only; a tensor of the host is an error there."""

    @functools.wraps(function)
    def checked(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        group = kwargs.get("group")
        plain = type(tensor) is torch.Tensor and tensor.device.type == "cpu"
        if plain and dist.get_backend(group) == "hccl" and device_tensor.memory.holder(tensor) < 0:
            refuse.refuse(
                RuntimeError,
                "No backend type associated with device type cpu",
                f"{function.__name__} of a tensor on the host over hccl",
            )
        return function(tensor, *args, **kwargs)

    return checked


def _let_threads_go() -> None:
    """Wait until gloo's threads have dropped the tensors of the last collective.

    Device tensors are objects of Python, so a thread needs the interpreter's lock to drop one. The
    group's end joins its threads while it holds that lock, and the end of the interpreter kills
    those that wait for it: the one hangs, the other aborts. To sleep is to give the lock away: a
    thread that wanted it runs at once, and one that rests over two looks has nothing left to do."""
    if not dist.is_initialized():
        return
    rested = 0
    for _ in range(_MOST_LOOKS):
        time.sleep(_LOOK_S)
        rested = 0 if _gloo_works() else rested + 1
        if rested == 2:
            return


def _gloo_works() -> bool:
    """Whether a thread of gloo runs or would run."""
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        try:
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has ended
            continue
        if name == _GLOO_THREAD and rest.split()[0] != "S":
            return True
    return False


def _settled(destroy: Any) -> Any:
    @functools.wraps(destroy)
    def destroy_settled(*args: Any, **kwargs: Any) -> Any:
        _let_threads_go()
        return destroy(*args, **kwargs)

    return destroy_settled


def _end_groups_gently() -> None:
    module = dist.distributed_c10d
    settled = _settled(module.destroy_process_group)
    module.destroy_process_group = dist.destroy_process_group = settled
    # For scripts that end without it.
    atexit.register(_let_threads_go)


def install() -> None:
    """Make `hccl` known."""
    if not dist.is_available():
        return
    _end_groups_gently()
    devices = ["npu", "cpu"] if SETTINGS.backend == "cpu" else ["npu", "cpu", "cuda"]
    dist.Backend.register_backend("hccl", _create, devices=devices)
    dist.is_hccl_available = lambda: True
    if SETTINGS.checks:
        for name in ("all_reduce", "broadcast", "reduce"):
            setattr(dist, name, _check_host_tensors(getattr(dist, name)))
    dist.Backend.default_device_backend_map["npu"] = "hccl"
    for kind in (dist.ProcessGroup, dist.ProcessGroupGloo):
        kind.get_hccl_comm_name = collectives.comm_name
    dtensor.watch_meshes()
