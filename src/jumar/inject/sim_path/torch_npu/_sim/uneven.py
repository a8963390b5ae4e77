"""Collectives of tensors that differ in size, which HCCL runs and gloo refuses."""

from typing import Any, Callable, Dict, List, Sequence

import torch
import torch.distributed as dist

from torch_npu._sim.finishing import Finishing
from torch_npu._sim.tensor import without_functions

_c10d: Any = dist.distributed_c10d


def _differ(tensors: Any) -> bool:
    return any(tensor.shape != tensors[0].shape for tensor in tensors)


def all_gather(group: Any, outputs: Any, inputs: Any, *options: Any) -> Any:
    """One broadcast per rank."""
    (parts,), (own,) = outputs, inputs
    with without_functions(), torch.no_grad():
        moved = [part.contiguous() for part in parts]
        moved[group.rank()].copy_(own)
    works: List[Any] = []
    for rank, part in enumerate(moved):
        choice = _c10d.BroadcastOptions()
        choice.rootRank = rank
        works.append(group.broadcast([part], choice))
    return Finishing(works, list(zip(parts, moved)))


def reduce_scatter(group: Any, outputs: Any, inputs: Any, *options: Any) -> Any:
    """One reduction per rank."""
    with without_functions():
        parts = [part.detach().clone(memory_format=torch.contiguous_format) for part in inputs[0]]
    works: List[Any] = []
    for rank, part in enumerate(parts):
        choice = _c10d.ReduceOptions()
        choice.rootRank = rank
        if options:
            choice.reduceOp = getattr(options[0], "reduceOp", options[0])
        works.append(group.reduce([part], choice))
    return Finishing(works, [(outputs[0], parts[group.rank()])])


def all_to_all(group: Any, outputs: Any, inputs: Any, *options: Any) -> Any:
    """All parts in one tensor, with the size of each."""
    with without_functions(), torch.no_grad():
        sent = torch.cat([part.reshape(-1) for part in inputs])
        received = sent.new_empty(sum(part.numel() for part in outputs))
        to_rank, from_rank = ([part.numel() for part in parts] for parts in (inputs, outputs))
        pairs = list(zip(outputs, received.split(from_rank)))
    single = getattr(group, "all_to_all_single", None) or group.alltoall_base
    work = single(received, sent, from_rank, to_rank, *options)
    return Finishing([work], [(output, part.view(output.shape)) for output, part in pairs])


_WAYS: Dict[str, Callable[..., Any]] = {
    "allgather": all_gather,
    "reduce_scatter": reduce_scatter,
    "alltoall": all_to_all,
}


def way_of(name: str, args: Sequence[Any]) -> Any:
    """How to run a collective whose tensors differ in size; None where gloo can."""
    way = _WAYS.get(name)
    if way is None:
        return None
    if name == "alltoall":
        return way if _differ(args[0]) or _differ(args[1]) else None
    lists = args[0] if name == "allgather" else args[1]
    return way if _differ(lists[0]) else None
