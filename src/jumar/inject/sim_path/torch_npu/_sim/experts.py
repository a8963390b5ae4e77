"""Mixture of experts: routing, permutation and products by group, as the plug-in's operators."""

from typing import Any, List, Optional, Tuple

import torch
import torch.nn.functional as F

Tensor = torch.Tensor


def npu_moe_gating_top_k_softmax(
    x: Tensor, finished: Optional[Tensor] = None, k: int = 1
) -> Tuple[Tensor, Tensor, Tensor]:
    """The k best experts of each token: their shares, their indices, and the order of the rows."""
    shares, experts = F.softmax(x, -1).topk(k, -1)
    if finished is not None:
        experts = experts.masked_fill(finished.unsqueeze(-1), x.shape[-1])
    rows = torch.arange(experts.numel(), device=x.device, dtype=torch.int32)
    return shares, experts.to(torch.int32), rows.view(k, -1).t().contiguous().view_as(experts)


def npu_moe_gating_top_k(
    x: Tensor,
    k: int,
    *,
    bias: Optional[Tensor] = None,
    k_group: int = 1,
    group_count: int = 1,
    group_select_mode: int = 0,
    renorm: int = 0,
    norm_type: int = 0,
    out_flag: bool = False,
    routed_scaling_factor: float = 1.0,
    eps: float = 1e-20,
    **kwargs: Optional[Tensor],
) -> Tuple[Tensor, Tensor, Tensor]:
    """The k best experts out of the best groups: their shares, their indices, and all shares.

    Shares are a softmax, or sigmoids normalised to sum to one; `bias` affects only the choice."""
    if renorm or any(value is not None for value in kwargs.values()):
        raise NotImplementedError("npu_moe_gating_top_k with renorm or token ids is not simulated")
    shares = torch.sigmoid(x.float()) if norm_type else F.softmax(x.float(), -1)
    ranked = (shares if bias is None else shares + bias.float()).detach()
    if group_count > 1:
        groups = ranked.unflatten(-1, (group_count, -1))
        worth = groups.topk(2, -1)[0].sum(-1) if group_select_mode else groups.amax(-1)
        best = _first(worth, k_group)
        hidden = torch.ones_like(worth, dtype=torch.bool).scatter(-1, best, False)
        ranked = groups.masked_fill(hidden.unsqueeze(-1), float("-inf")).flatten(-2)
    chosen = _first(ranked, k)
    given = shares.gather(-1, chosen)
    if norm_type:
        given = given / (given.sum(-1, keepdim=True) + eps)
    every = shares if out_flag else x.new_empty(0)
    return (given * routed_scaling_factor).to(x.dtype), chosen.to(torch.int32), every


def _first(worth: Tensor, count: int) -> Tensor:
    """The indices of the highest values; the first of equal ones."""
    return worth.sort(dim=-1, descending=True, stable=True)[1][..., :count]


def npu_moe_init_routing(
    x: Tensor, row_idx: Tensor, expert_idx: Tensor, active_num: int
) -> Tuple[Tensor, Tensor, Tensor]:
    """Rows sorted by expert, the new position of each row of `row_idx`, and the sorted experts."""
    experts, order = expert_idx.flatten().sort(stable=True)
    sources = row_idx.flatten()[order].long()
    places = torch.empty_like(sources)
    places[sources] = torch.arange(sources.numel(), device=x.device)
    active = min(active_num, x.shape[0]) * expert_idx.shape[-1]
    return x[sources[:active] % x.shape[0]], places.to(torch.int32), experts


def npu_moe_compute_expert_tokens(sorted_expert_for_source_row: Tensor, num_expert: int) -> Tensor:
    """The cumulative number of rows per expert."""
    experts = torch.arange(num_expert, device=sorted_expert_for_source_row.device)
    rows = sorted_expert_for_source_row.unsqueeze(0) <= experts.unsqueeze(1)
    return rows.sum(1).to(torch.int32)


def npu_moe_finalize_routing(
    expanded_permuted_rows: Tensor,
    skip1: Optional[Tensor],
    skip2: Optional[Tensor],
    bias: Optional[Tensor],
    scales: Optional[Tensor],
    expanded_src_to_dst_row: Tensor,
    export_for_source_row: Optional[Tensor],
    drop_pad_mode: Optional[int] = 0,
    k: Optional[int] = 1,
) -> Tensor:
    """The weighted sum of each token's expert outputs, plus what skipped them."""
    if drop_pad_mode:
        raise NotImplementedError("npu_moe_finalize_routing with drop_pad_mode is not simulated")
    copies = scales.shape[1] if scales is not None else 1
    back = expanded_permuted_rows[expanded_src_to_dst_row.long()]
    back = back.view(copies, -1, back.shape[-1]).transpose(0, 1)
    if bias is not None and export_for_source_row is not None:
        back = back + bias[export_for_source_row.long()]
    total = (back if scales is None else back * scales.unsqueeze(-1)).sum(1)
    for skip in (skip1, skip2):
        total = total if skip is None else total + skip
    return total


def npu_moe_token_permute(
    tokens: Tensor, indices: Tensor, num_out_tokens: Optional[int] = None, padded_mode: bool = False
) -> Tuple[Tensor, Tensor]:
    """Tokens sorted by expert, and the new position of each."""
    copies = 1 if indices.dim() == 1 else indices.shape[1]
    order = torch.argsort(indices.flatten(), stable=True)
    kept = order if not num_out_tokens else order[:num_out_tokens]
    return tokens.index_select(0, kept // copies), torch.argsort(order, stable=True).to(torch.int32)


def npu_moe_token_unpermute(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Optional[Tensor] = None,
    padded_mode: bool = False,
    restore_shape: Optional[List[int]] = None,
) -> Tensor:
    """The sum of each token's copies, weighted by `probs`."""
    copies = 1 if probs is None else probs.shape[1]
    back = permuted_tokens.index_select(0, sorted_indices.long())
    back = back.reshape(-1, copies, permuted_tokens.shape[-1])
    return back.sum(1) if probs is None else (back * probs.unsqueeze(-1)).sum(1).to(back.dtype)


def npu_grouped_matmul(
    x: List[Tensor],
    weight: List[Tensor],
    *,
    bias: Optional[List[Tensor]] = None,
    group_list: Any = None,
    split_item: Optional[int] = 0,
    group_type: Optional[int] = None,
    group_list_type: Optional[int] = 0,
    **kwargs: Any,
) -> List[Tensor]:
    """One product per group; quantised inputs are not simulated."""
    if any(value is not None for value in kwargs.values()):
        raise NotImplementedError(f"npu_grouped_matmul with {', '.join(kwargs)} is not simulated")
    weights = (
        list(weight[0].unbind(0)) if len(weight) == 1 and weight[0].dim() == 3 else list(weight)
    )
    inputs = list(x)
    if len(inputs) == 1 and group_list is not None:
        inputs = list(inputs[0].split(_sizes(group_list, group_list_type)))
    results = [torch.matmul(part, matrix) for part, matrix in zip(inputs, weights)]
    if bias:
        biases = list(bias[0].unbind(0)) if len(bias) == 1 and bias[0].dim() == 2 else list(bias)
        results = [result + offset for result, offset in zip(results, biases)]
    return [torch.cat(results)] if split_item in (2, 3) else results


def _sizes(group_list: Any, kind: Optional[int]) -> List[int]:
    """The number of rows in each group; a list of type 0 gives their ends."""
    numbers = [int(number) for number in group_list]
    return numbers if kind else [end - start for start, end in zip([0, *numbers], numbers)]


def npu_grouped_matmul_add_(
    self: Tensor,
    x: Tensor,
    weight: Tensor,
    group_list: Any,
    *,
    transpose_x: bool = True,
    transpose_weight: bool = False,
    group_type: int = 2,
    group_list_type: Optional[int] = 0,
) -> Tensor:
    """Adds xᵀ · weight of each group's rows to its matrix: a gradient accumulated in place."""
    sizes = _sizes(group_list, group_list_type)
    with torch.no_grad():
        pairs = zip(x.split(sizes), weight.split(sizes))
        self.add_(torch.stack([torch.matmul(left.t(), right) for left, right in pairs]))
    return self
