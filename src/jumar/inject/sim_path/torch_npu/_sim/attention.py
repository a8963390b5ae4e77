"""The plug-in's fused attention, written out.

`sparse_mode` 0 to 4 are supported; packed layouts (TND) with lengths of their own are too."""

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F

from torch_npu._sim import attention_checks
from torch_npu._sim.place import SETTINGS

Tensor = torch.Tensor
Hide = Callable[[Tensor], Optional[Tensor]]
"""The mask of the scores that are not attended to."""
_HIDDEN = -3.4028234663852886e38


def split(tensor: Tensor, heads: int, layout: str) -> Tensor:
    """To batch, heads, length, width."""
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.transpose(1, 2)
    width = tensor.shape[-1] // heads
    if layout == "BSH":
        return tensor.unflatten(-1, (heads, width)).transpose(1, 2)
    if layout == "SBH":
        return tensor.unflatten(-1, (heads, width)).permute(1, 2, 0, 3)
    raise RuntimeError(f"input_layout {layout} is not one of BNSD, BSND, BSH, SBH, TND")


def join(tensor: Tensor, layout: str) -> Tensor:
    """Back from batch, heads, length, width."""
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.transpose(1, 2)
    if layout == "BSH":
        return tensor.transpose(1, 2).flatten(2)
    return tensor.permute(2, 0, 1, 3).flatten(2)


def hidden(
    scores: Tensor, atten_mask: Optional[Tensor], sparse_mode: int, pre: int, following: int
) -> Optional[Tensor]:
    """True where a query does not attend; without a mask, the sparse mode has no effect."""
    if atten_mask is None:
        return None
    queries, keys = scores.shape[-2:]
    rows = torch.arange(queries, device=scores.device).unsqueeze(1)
    columns = torch.arange(keys, device=scores.device)
    if sparse_mode == 2:
        return columns > rows
    if sparse_mode == 3:
        return columns > rows + (keys - queries)
    if sparse_mode == 4:
        middle = rows + (keys - queries)
        return (columns > middle + following) | (columns < middle - pre)
    mask = atten_mask.bool()
    if sparse_mode == 0 and (pre < keys or following < keys):
        mask = mask | (columns > rows + following) | (columns < rows - pre)
    return mask


def masked_scores(
    query: Tensor, key: Tensor, scale: float, bias: Optional[Tensor], hide: Hide
) -> Tensor:
    """The input of the softmax."""
    scores = torch.matmul(query, key.transpose(-1, -2)).float() * scale
    if bias is not None:
        scores = scores + bias
    unseen = hide(scores)
    return scores if unseen is None else scores.masked_fill(unseen, _HIDDEN)


def kv_heads(query: Tensor, key: Tensor, head_num: int, layout: str) -> int:
    """The number of key heads, if the layout does not show it."""
    return key.shape[-1] * head_num // query.shape[-1] if layout in ("BSH", "SBH") else 0


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    bias: Optional[Tensor],
    hide: Hide,
    keep_prob: float,
) -> Tuple[Tensor, Tensor, Tensor]:
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = masked_scores(query, key, scale, bias, hide)
    highest = scores.amax(-1, keepdim=True)
    total = torch.exp(scores - highest).sum(-1, keepdim=True)
    weights = F.dropout(F.softmax(scores, -1), 1 - keep_prob, keep_prob < 1).to(value.dtype)
    wide = (*highest.shape[:-1], 8)
    return torch.matmul(weights, value), highest.detach().expand(wide), total.detach().expand(wide)


def npu_fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Optional[Tensor] = None,
    padding_mask: Optional[Tensor] = None,
    atten_mask: Optional[Tensor] = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = 2147483647,
    next_tockens: int = 2147483647,
    inner_precise: int = 0,
    prefix: Optional[List[int]] = None,
    actual_seq_qlen: Optional[List[int]] = None,
    actual_seq_kvlen: Optional[List[int]] = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    **kwargs: Any,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:
    """softmax(q · k · scale + pse, masked) · v; the maximum scores, the sums, and unused outputs."""
    refuse_unknown("npu_fusion_attention", {**kwargs, "prefix": prefix})
    if SETTINGS.checks:
        attention_checks.check(
            (query, key, value),
            head_num,
            input_layout.upper(),
            atten_mask,
            keep_prob,
            sparse_mode,
            (actual_seq_qlen, actual_seq_kvlen),
        )
    return _fused(
        query,
        key,
        value,
        head_num,
        input_layout.upper(),
        pse=pse,
        atten_mask=atten_mask,
        scale=scale,
        keep_prob=keep_prob,
        pre_tockens=pre_tockens,
        next_tockens=next_tockens,
        sparse_mode=sparse_mode,
        lengths=(actual_seq_qlen, actual_seq_kvlen),
    )


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Optional[Tensor] = None,
    atten_mask: Optional[Tensor] = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = 2147483647,
    next_tockens: int = 2147483647,
    sparse_mode: int = 0,
    lengths: Tuple[Optional[List[int]], Optional[List[int]]] = (None, None),
) -> Tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:
    if sparse_mode not in range(5) or (pse is not None and input_layout == "TND"):
        raise NotImplementedError(
            f"npu_fusion_attention: sparse_mode {sparse_mode} with layout {input_layout} is not simulated"
        )

    def hide(scores: Tensor) -> Optional[Tensor]:
        return hidden(scores, atten_mask, sparse_mode, pre_tockens, next_tockens)

    if input_layout == "TND":
        bounds = zip(*map(_spans, lengths))
        parts = [
            _attend(
                query[q].transpose(0, 1).unsqueeze(0),
                key[k].transpose(0, 1).unsqueeze(0),
                value[k].transpose(0, 1).unsqueeze(0),
                scale,
                None,
                hide,
                keep_prob,
            )
            for q, k in bounds
        ]
        joined = [torch.cat([part[i][0].transpose(0, 1) for part in parts]) for i in range(3)]
        return joined[0], joined[1], joined[2], query.new_empty(0), 0, 0, 0
    heads = kv_heads(query, key, head_num, input_layout)
    out, highest, total = _attend(
        split(query, head_num, input_layout),
        split(key, heads, input_layout),
        split(value, heads, input_layout),
        scale,
        pse,
        hide,
        keep_prob,
    )
    return join(out, input_layout), highest, total, query.new_empty(0), 0, 0, 0


def refuse_unknown(name: str, options: Dict[str, Any]) -> None:
    """Options that change the result and are not simulated must not be ignored."""
    given = [key for key, value in options.items() if isinstance(value, (Tensor, list, tuple))]
    if given:
        raise NotImplementedError(f"{name} with {', '.join(given)} is not simulated")


def _spans(ends: Optional[List[int]]) -> List[slice]:
    """The parts of a packed batch, whose ends are given."""
    if ends is None:
        raise RuntimeError("layout TND needs actual_seq_qlen and actual_seq_kvlen")
    ends = [int(end) for end in ends]
    return [slice(first, last) for first, last in zip([0, *ends], ends)]


def npu_prompt_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    padding_mask: Optional[Tensor] = None,
    atten_mask: Optional[Tensor] = None,
    pse_shift: Optional[Tensor] = None,
    actual_seq_lengths: Optional[List[int]] = None,
    num_heads: int = 1,
    scale_value: float = 1.0,
    pre_tokens: int = 2147483647,
    next_tokens: int = 0,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    **kwargs: Any,
) -> Tensor:
    """Attention for inference."""
    refuse_unknown(
        "npu_prompt_flash_attention", {**kwargs, "actual_seq_lengths": actual_seq_lengths}
    )
    return _fused(
        query,
        key,
        value,
        num_heads,
        input_layout,
        pse=pse_shift,
        atten_mask=atten_mask,
        scale=scale_value,
        pre_tockens=pre_tokens,
        next_tockens=next_tokens if atten_mask is not None else 2147483647,
        sparse_mode=sparse_mode,
    )[0]


def npu_incre_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    atten_mask: Optional[Tensor] = None,
    pse_shift: Optional[Tensor] = None,
    num_heads: int = 1,
    scale_value: float = 1.0,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    block_size: int = 0,
    inner_precise: int = 1,
    **kwargs: Any,
) -> Tensor:
    """Attention of one new query over all keys so far."""
    refuse_unknown("npu_incre_flash_attention", kwargs)
    return _fused(
        query,
        key,
        value,
        num_heads,
        input_layout,
        pse=pse_shift,
        atten_mask=atten_mask,
        scale=scale_value,
    )[0]
