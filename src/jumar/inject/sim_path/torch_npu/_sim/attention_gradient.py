"""The gradient of fused attention as a separate operator, for sequences split over several devices.

The maximum scores, the sums and the output are those of the whole sequence, so they are inputs; the
other inputs may be a part of it."""

from typing import Any, List, Optional, Tuple

import torch

from torch_npu._sim import attention

Tensor = torch.Tensor


def _gradients(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    grad: Tensor,
    output: Tensor,
    highest: Tensor,
    total: Tensor,
    bias: Optional[Tensor],
    hide: attention.Hide,
    scale: float,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    groups = query.shape[1] // key.shape[1]
    keys, values = (t.repeat_interleave(groups, 1).float() for t in (key, value))
    scores = attention.masked_scores(query.float(), keys, scale, bias, hide)
    weights = torch.exp(scores - highest[..., :1]) / total[..., :1]
    grad, output = grad.float(), output.float()
    to_weights = torch.matmul(grad, values.transpose(-1, -2))
    to_scores = weights * (to_weights - (grad * output).sum(-1, keepdim=True))
    by_group = (key.shape[1], groups)
    to_keys = torch.matmul(to_scores.transpose(-1, -2), query.float()) * scale
    to_values = torch.matmul(weights.transpose(-1, -2), grad)
    return (
        (torch.matmul(to_scores, keys) * scale).to(query.dtype),
        to_keys.unflatten(1, by_group).sum(2).to(key.dtype),
        to_values.unflatten(1, by_group).sum(2).to(value.dtype),
        to_scores,
    )


def npu_fusion_attention_grad(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dy: Tensor,
    head_num: int,
    input_layout: str,
    *,
    pse: Optional[Tensor] = None,
    padding_mask: Optional[Tensor] = None,
    atten_mask: Optional[Tensor] = None,
    softmax_max: Optional[Tensor] = None,
    softmax_sum: Optional[Tensor] = None,
    softmax_in: Optional[Tensor] = None,
    attention_in: Optional[Tensor] = None,
    scale_value: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = 2147483647,
    next_tockens: int = 2147483647,
    sparse_mode: int = 0,
    actual_seq_qlen: Optional[List[int]] = None,
    actual_seq_kvlen: Optional[List[int]] = None,
    **kwargs: Any,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of the query, the key, the value and the bias, and an unused output."""
    attention.refuse_unknown(
        "npu_fusion_attention_grad", {**kwargs, "actual_seq_qlen": actual_seq_qlen}
    )
    if softmax_max is None or softmax_sum is None or attention_in is None or keep_prob < 1:
        raise NotImplementedError(
            "npu_fusion_attention_grad is simulated with softmax_max, softmax_sum and attention_in, "
            "and without dropout"
        )

    def hide(scores: Tensor) -> Optional[Tensor]:
        return attention.hidden(scores, atten_mask, sparse_mode, pre_tockens, next_tockens)

    kv_heads = attention.kv_heads(query, key, head_num, input_layout)
    with torch.no_grad():
        of_query, of_key, of_value, of_bias = _gradients(
            attention.split(query, head_num, input_layout),
            attention.split(key, kv_heads, input_layout),
            attention.split(value, kv_heads, input_layout),
            attention.split(dy, head_num, input_layout),
            attention.split(attention_in, head_num, input_layout),
            softmax_max,
            softmax_sum,
            pse,
            hide,
            scale_value,
        )
    joined = [attention.join(grad, input_layout) for grad in (of_query, of_key, of_value)]
    of_bias = query.new_empty(0) if pse is None else of_bias.to(pse.dtype)
    return joined[0], joined[1], joined[2], of_bias, query.new_empty(0)
