"""`torch_npu.utils`: many tensors in one piece of memory, saving in the background, counting."""

import os
import threading
from typing import Any, List, Optional, Sequence, Union

import torch
from torch.utils.flop_counter import FlopCounterMode

from torch_npu._sim import absent
from torch_npu.npu.utils import get_cann_version

__all__ = [
    "FlopsCounter",
    "get_cann_version",
    "get_part_combined_tensor",
    "is_combined_tensor_valid",
    "npu_combine_tensors",
    "register_asd_hook",
    "reset_thread_affinity",
    "save_async",
    "set_asd_loss_scale",
    "set_thread_affinity",
]

__getattr__ = absent.of_module(__name__)
_Ranges = Union[Sequence[int], Sequence[Sequence[int]]]


def npu_combine_tensors(
    list_of_tensor: Sequence[torch.Tensor], require_copy_value: bool = True
) -> Optional[torch.Tensor]:
    """One tensor whose memory all of the given ones share from now on."""
    if not list_of_tensor:
        return None
    if len({(tensor.dtype, tensor.device) for tensor in list_of_tensor}) > 1:
        raise RuntimeError("tensors to combine must have the same dtype and device")
    whole = torch.zeros(
        sum(tensor.numel() for tensor in list_of_tensor),
        dtype=list_of_tensor[0].dtype,
        device=list_of_tensor[0].device,
    )
    first = 0
    for tensor in list_of_tensor:
        part = whole[first : first + tensor.numel()].view(tensor.shape)
        if require_copy_value:
            part.copy_(tensor.detach())
        tensor.data = part
        first += tensor.numel()
    return whole


def get_part_combined_tensor(
    combined_tensor: Optional[torch.Tensor], index: int, size: int
) -> Optional[torch.Tensor]:
    """A part of a combined tensor, in the same memory."""
    if combined_tensor is None or size == 0:
        return None
    if index + size > combined_tensor.numel():
        raise RuntimeError(
            f"(index + size) ({index + size}) > the size of the combined tensor "
            f"({combined_tensor.numel()})"
        )
    return combined_tensor[index : index + size]


def is_combined_tensor_valid(
    combined_tensor: Optional[torch.Tensor], list_of_tensor: Sequence[Optional[torch.Tensor]]
) -> bool:
    """Whether all tensors still lie in the memory of a combined one."""
    if not list_of_tensor:
        return True
    if combined_tensor is None:
        return False
    start = combined_tensor.data_ptr()
    end = start + combined_tensor.numel() * combined_tensor.element_size()
    return all(
        tensor is not None and start <= tensor.data_ptr() < end and tensor.is_contiguous()
        for tensor in list_of_tensor
    )


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return type(value)((name, _on_host(item)) for name, item in value.items())
    if type(value) in (list, tuple, set):
        return type(value)(_on_host(item) for item in value)
    return value


def save_async(obj: Any, f: Any, *args: Any, model: Any = None, **kwargs: Any) -> None:
    """`torch.save` of what the object holds now, in a thread; the process waits for it at its end."""
    now = _on_host(obj)
    threading.Thread(target=torch.save, args=(now, f, *args), kwargs=kwargs).start()


class FlopsCounter:
    """Counts floating-point operations by torch's own formulas."""

    def __init__(self) -> None:
        self._mode: Optional[FlopCounterMode] = None
        self._total = 0

    def start(self) -> None:
        """Count from now on."""
        if self._mode is None:
            self._mode = FlopCounterMode(display=False)
            self._mode.__enter__()

    def pause(self) -> None:
        """Keep what is counted, and count no more until `resume`."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._total += self._mode.get_total_flops()
            self._mode = None

    resume = start

    def stop(self) -> None:
        """Stop, and forget what was counted."""
        self.pause()
        self._total = 0

    def get_flops(self) -> List[int]:
        """What was counted, twice: recorded and traversed are the same here."""
        running = 0 if self._mode is None else self._mode.get_total_flops()
        return [self._total + running] * 2


def _cores(core_range: _Ranges) -> List[int]:
    ranges: Any = core_range
    if len(ranges) == 2 and all(isinstance(edge, int) for edge in ranges):
        ranges = [ranges]
    cores: List[int] = []
    for edges in ranges:
        if not isinstance(edges, (list, tuple)) or len(edges) != 2 or not 0 <= edges[0] <= edges[1]:
            raise ValueError(f"Invalid core range: {core_range}")
        cores += range(edges[0], edges[1] + 1)
    return cores


_FIRST_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else frozenset()


def set_thread_affinity(core_range: Optional[_Ranges] = None) -> None:
    """Bind this thread to cores; those that the process may not use are left out."""
    if core_range is None:
        reset_thread_affinity()
        return
    allowed = _FIRST_CORES.intersection(_cores(core_range))
    if allowed:
        os.sched_setaffinity(0, allowed)


def reset_thread_affinity() -> None:
    """Let this thread use all cores that the process could use at its start."""
    if _FIRST_CORES:
        os.sched_setaffinity(0, _FIRST_CORES)


def set_asd_loss_scale(loss_scale: float = 1.0) -> None:
    """The scale of the loss, for finding silent faults of a chip."""


def register_asd_hook(x: Any, weight: Any) -> None:
    """Watch a layer for silent faults; a simulated chip has none."""
