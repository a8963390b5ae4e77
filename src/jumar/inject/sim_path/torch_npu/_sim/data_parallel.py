"""`nn.DataParallel`: one process that drives several simulated NPUs.

Torch's own code calls `torch._C` to scatter and gather tensors; builds without cards do not have these
functions, so they are added here under the names that the plug-in uses."""

from typing import Any, List, Optional, Sequence, Tuple

import torch


def _device(index: int) -> torch.device:
    return torch.device("cpu") if index == -1 else torch.device("npu", index)


def _broadcast(tensor: Any, devices: Sequence[int]) -> Tuple[Any, ...]:
    return tuple(tensor.to(_device(index)) for index in devices)


def _broadcast_out(tensor: Any, out: Sequence[Any]) -> Tuple[Any, ...]:
    return tuple(place.copy_(tensor) for place in out)


def _broadcast_coalesced(
    tensors: Sequence[Any], devices: Sequence[int], buffer_size: int
) -> List[List[Any]]:
    return [[tensor.to(_device(index)) for tensor in tensors] for index in devices]


def _chunks(tensor: Any, count: int, sizes: Optional[Sequence[int]], dim: int) -> Tuple[Any, ...]:
    return tensor.chunk(count, dim) if sizes is None else tensor.split(list(sizes), dim)


def _scatter(
    tensor: Any,
    devices: Sequence[int],
    chunk_sizes: Optional[Sequence[int]] = None,
    dim: int = 0,
    streams: Any = None,
) -> List[Any]:
    chunks = _chunks(tensor, len(devices), chunk_sizes, dim)
    return [chunk.to(_device(index)) for chunk, index in zip(chunks, devices)]


def _scatter_out(tensor: Any, out: Sequence[Any], dim: int = 0, streams: Any = None) -> List[Any]:
    chunks = tensor.split([place.size(dim) for place in out], dim)
    return [place.copy_(chunk) for place, chunk in zip(out, chunks)]


def _gather(tensors: Sequence[Any], dim: int, destination: Optional[int]) -> Any:
    index = torch.accelerator.current_device_index() if destination is None else destination
    return torch.cat([tensor.to(_device(index)) for tensor in tensors], dim)


def _gather_out(tensors: Sequence[Any], out: Any, dim: int) -> Any:
    return out.copy_(torch.cat([tensor.to(out.device) for tensor in tensors], dim))


def install() -> None:
    """Add what `torch.nn.parallel.comm` calls."""
    torch._C._broadcast = _broadcast
    torch._C._broadcast_out = _broadcast_out
    torch._C._broadcast_coalesced = _broadcast_coalesced
    torch._C._scatter = _scatter
    torch._C._scatter_out = _scatter_out
    torch._C._gather = _gather
    torch._C._gather_out = _gather_out
