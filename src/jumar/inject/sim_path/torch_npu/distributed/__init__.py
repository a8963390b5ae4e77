"""`torch_npu.distributed`: groups over hccl, and collectives of parts that differ in size."""

from typing import Any, List, Optional

import torch
import torch.distributed as dist

from torch_npu._sim import absent

__all__ = [
    "all_gather_into_tensor_uneven",
    "is_available",
    "is_hccl_available",
    "reduce_scatter_tensor_uneven",
    "reinit_process_group",
]

__getattr__ = absent.of_module(__name__)
is_available = dist.is_available
_make_hccl_premul_sum = getattr(dist, "_make_nccl_premul_sum", None)


def is_hccl_available() -> bool:
    """Whether groups over hccl can be made."""
    return dist.is_available()


def reinit_process_group(group: Any = None, rebuild_link: bool = True) -> Any:
    """Connect a group again; these keep their connections."""
    if not rebuild_link:
        return None
    return dist.group.WORLD if group is None else group


def _sizes(sizes: Optional[List[int]], whole: torch.Tensor, group: Any) -> List[int]:
    """How many rows of the whole each rank has."""
    if sizes is not None:
        return sizes
    ranks = dist.get_world_size(group)
    if whole.size(0) % ranks:
        raise ValueError(f"{whole.size(0)} rows cannot be split evenly over {ranks} ranks")
    return [whole.size(0) // ranks] * ranks


def all_gather_into_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: Optional[List[int]] = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """The parts of all ranks, one after the other."""
    parts = list(output.split(_sizes(output_split_sizes, output, group)))
    works = [
        dist.broadcast(
            part.copy_(input) if rank == dist.get_rank(group) else part,
            group_src=rank,
            group=group,
            async_op=async_op,
        )
        for rank, part in enumerate(parts)
    ]
    return works[-1]


def reduce_scatter_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,
    input_split_sizes: Optional[List[int]] = None,
    op: Any = dist.ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """This rank's part of the sum over all ranks."""
    total = input.clone()
    work: Any = dist.all_reduce(total, op, group, async_op=True)
    work.wait()
    output.copy_(total.split(_sizes(input_split_sizes, total, group))[dist.get_rank(group)])
    return work if async_op else None
