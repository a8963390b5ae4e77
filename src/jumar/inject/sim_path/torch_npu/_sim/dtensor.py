"""DTensor, and so FSDP2, on simulated devices.

DTensor runs operators on its local tensors in C++, which returns plain tensors; here they get the
class of their device when they are accessed. Installed when the first mesh of NPUs is created."""

from contextlib import contextmanager
from typing import Any, Generator

import torch

from torch_npu._sim import place
from torch_npu._sim import tensor as device_tensor
from torch_npu._sim.tensor import Tensor, tag, without_functions

_done = False


def prepare() -> None:
    """Let DTensors of a mesh of NPUs show their device."""
    global _done
    if _done:
        return
    _done = True
    from torch.distributed.tensor import DTensor

    slot: Any = DTensor._local_tensor

    def on_npu(self: Any) -> bool:
        spec = getattr(self, "_spec", None)
        return spec is not None and spec.mesh.device_type == "npu"

    def local(self: Any) -> Any:
        tensor = slot.__get__(self)
        if type(tensor) is Tensor and on_npu(self):
            with without_functions():
                tag(tensor, device_tensor.CLASSES[place.current_index()])
        return tensor

    def device(self: Any) -> torch.device:
        return slot.__get__(self).device if not on_npu(self) else local(self).device

    DTensor._local_tensor = property(local, slot.__set__)
    DTensor.device = property(device)
    _let_random_numbers_be_the_hosts()


def _let_random_numbers_be_the_hosts() -> None:
    """Run random operators on each shard as a mesh of CPUs does: the host's state has no offset to move."""
    from torch.distributed.tensor._random import OffsetBasedRNGTracker

    region = OffsetBasedRNGTracker._distribute_region

    @contextmanager
    def of_the_host(self: Any, *args: Any, **kwargs: Any) -> "Generator[None, None, None]":
        if self._device.type == "npu":
            yield
            return
        with region(self, *args, **kwargs):
            yield

    OffsetBasedRNGTracker._distribute_region = of_the_host


def watch_meshes() -> None:
    """Install it when a mesh of NPUs is created; importing DTensor is too slow to always do it."""
    from torch.distributed.device_mesh import DeviceMesh

    init = DeviceMesh.__init__

    def prepared(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        if device_type == "npu":
            prepare()
        init(self, device_type, *args, **kwargs)

    DeviceMesh.__init__ = prepared
