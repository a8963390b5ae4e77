"""Products combined with a collective, for layers and experts that are split over several devices.

Their group is named by a string, which `get_hccl_comm_name` of a group returns. Quantised inputs are
not simulated."""

from typing import Any, List, Optional, Tuple

import torch
import torch.distributed as dist

from torch_npu._sim import no_gradient
from torch_npu._sim.experts import npu_grouped_matmul

Tensor = torch.Tensor


def _first_of(*names: str) -> Any:
    """A collective by its newest name that this torch has."""
    return next((getattr(dist, name) for name in names if hasattr(dist, name)), None)


_all_gather = _first_of("all_gather_single", "all_gather_into_tensor")
_reduce_scatter = _first_of("reduce_scatter_single", "reduce_scatter_tensor")


def comm_name(group: Any, rank: int) -> str:
    """The result of `get_hccl_comm_name`: torch's name for the group."""
    groups = dist.distributed_c10d._world.pg_names
    for known, name in groups.items():
        if known is group or known._get_backend(torch.device("npu")) is group:
            return name
    raise RuntimeError("this process group was not created by torch.distributed")


def _group(hcom: str) -> Any:
    resolve: Any = dist.distributed_c10d._resolve_process_group
    return resolve(hcom)


def _refuse_scales(name: str, **scales: Optional[Tensor]) -> None:
    given = [key for key, value in scales.items() if value is not None]
    if given:
        raise NotImplementedError(f"{name} with {', '.join(given)} is not simulated")


def npu_mm_all_reduce_base(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    *,
    reduce_op: str = "sum",
    bias: Optional[Tensor] = None,
    x3: Optional[Tensor] = None,
    comm_turn: int = 0,
    antiquant_group_size: int = 0,
    **scales: Optional[Tensor],
) -> Tensor:
    """The sum over the group of x1 · x2 + bias + x3."""
    _refuse_scales("npu_mm_all_reduce_base", **scales)

    def run() -> Tensor:
        product = torch.matmul(x1, x2)
        for term in (bias, x3):
            product = product if term is None else product + term
        dist.all_reduce(product, group=_group(hcom))
        return product

    return no_gradient.compute("npu_mm_all_reduce_base", run, (x1, x2))


def npu_all_gather_base_mm(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    bias: Optional[Tensor] = None,
    x1_scale: Optional[Tensor] = None,
    x2_scale: Optional[Tensor] = None,
    gather_index: int = 0,
    gather_output: bool = True,
    comm_turn: int = 0,
    output_dtype: Optional[torch.dtype] = None,
    comm_mode: Optional[str] = None,
) -> Tuple[Tensor, Tensor]:
    """The rows of x1 from the whole group, times x2; and those rows."""
    _refuse_scales("npu_all_gather_base_mm", x1_scale=x1_scale, x2_scale=x2_scale)
    rows = x1.new_empty((x1.shape[0] * world_size, x1.shape[1]))

    def run() -> Tensor:
        _all_gather(rows, x1.detach().contiguous(), group=_group(hcom))
        product = torch.matmul(rows, x2)
        return product if bias is None else product + bias

    product = no_gradient.compute("npu_all_gather_base_mm", run, (x1, x2))
    return product, rows if gather_output else x1.new_empty(0)


def npu_mm_reduce_scatter_base(
    input: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    reduce_op: str = "sum",
    bias: Optional[Tensor] = None,
    x1_scale: Optional[Tensor] = None,
    x2_scale: Optional[Tensor] = None,
    comm_turn: int = 0,
    output_dtype: Optional[torch.dtype] = None,
    comm_mode: Optional[str] = None,
) -> Tensor:
    """This rank's share of the rows of the sum over the group of input · x2 + bias."""
    _refuse_scales("npu_mm_reduce_scatter_base", x1_scale=x1_scale, x2_scale=x2_scale)

    def run() -> Tensor:
        product = torch.matmul(input, x2)
        product = product if bias is None else product + bias
        share = product.new_empty((product.shape[0] // world_size, product.shape[1]))
        _reduce_scatter(share, product.contiguous(), group=_group(hcom))
        return share

    return no_gradient.compute("npu_mm_reduce_scatter_base", run, (input, x2))


def _exchange(rows: Tensor, send: List[int], receive: List[int], ranks: int, hcom: str) -> Tensor:
    """Send each rank its rows; the counts are by rank, then by expert."""
    received = rows.new_empty((sum(receive), rows.shape[1]))
    shares = [[sum(part) for part in _by_rank(counts, ranks)] for counts in (receive, send)]
    dist.all_to_all_single(received, rows.contiguous(), *shares, group=_group(hcom))
    return received


def _by_rank(counts: List[int], ranks: int) -> List[List[int]]:
    experts = len(counts) // ranks
    return [counts[start : start + experts] for start in range(0, len(counts), experts)]


def _by_expert(counts: List[int], ranks: int) -> List[int]:
    """The positions, in order by expert, of rows that came in order by rank."""
    starts = [sum(counts[:at]) for at in range(len(counts))]
    experts = len(counts) // ranks
    places = [at for expert in range(experts) for at in range(expert, len(counts), experts)]
    return [row for at in places for row in range(starts[at], starts[at] + counts[at])]


def _expert_products(
    rows: Tensor, weight: Tensor, counts: List[int], ranks: int, transposed: bool
) -> Tensor:
    sizes = [sum(of_expert) for of_expert in zip(*_by_rank(counts, ranks))]
    matrices = weight.transpose(1, 2) if transposed else weight
    return npu_grouped_matmul(
        [rows], [matrices], group_list=sizes, group_list_type=1, split_item=3
    )[0]


def _shared(x: Optional[Tensor], weight: Optional[Tensor], transposed: bool) -> Optional[Tensor]:
    if x is None or weight is None:
        return None
    return torch.matmul(x, weight.t() if transposed else weight)


def npu_alltoallv_gmm(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    hcom: str,
    ep_world_size: int,
    send_counts: List[int],
    recv_counts: List[int],
    *,
    send_counts_tensor: Optional[Tensor] = None,
    recv_counts_tensor: Optional[Tensor] = None,
    mm_x: Optional[Tensor] = None,
    mm_weight: Optional[Tensor] = None,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
    permute_out_flag: bool = False,
    comm_mode: Optional[str] = None,
) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
    """Rows sent to the ranks of their experts and multiplied there; the shared expert's; the rows."""
    send, receive = [int(n) for n in send_counts], [int(n) for n in recv_counts]
    with torch.no_grad():
        came = _exchange(gmm_x, send, receive, ep_world_size, hcom)
        rows = came[torch.tensor(_by_expert(receive, ep_world_size), dtype=torch.long)]

    def run() -> Tensor:
        return _expert_products(rows, gmm_weight, receive, ep_world_size, trans_gmm_weight)

    product = no_gradient.compute("npu_alltoallv_gmm", run, (gmm_x, gmm_weight))
    shared = _shared(mm_x, mm_weight, trans_mm_weight)
    return product, shared, rows if permute_out_flag else None


def npu_gmm_alltoallv(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    hcom: str,
    ep_world_size: int,
    send_counts: List[int],
    recv_counts: List[int],
    *,
    send_counts_tensor: Optional[Tensor] = None,
    recv_counts_tensor: Optional[Tensor] = None,
    mm_x: Optional[Tensor] = None,
    mm_weight: Optional[Tensor] = None,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
    comm_mode: Optional[str] = None,
) -> Tuple[Tensor, Optional[Tensor]]:
    """Rows multiplied by their experts and sent back to the ranks they came from; the shared expert's."""
    send, receive = [int(n) for n in send_counts], [int(n) for n in recv_counts]

    def run() -> Tensor:
        product = _expert_products(gmm_x, gmm_weight, send, ep_world_size, trans_gmm_weight)
        by_rank = torch.empty_like(product)
        by_rank[torch.tensor(_by_expert(send, ep_world_size), dtype=torch.long)] = product
        return _exchange(by_rank, send, receive, ep_world_size, hcom)

    product = no_gradient.compute("npu_gmm_alltoallv", run, (gmm_x, gmm_weight))
    return product, _shared(mm_x, mm_weight, trans_mm_weight)
