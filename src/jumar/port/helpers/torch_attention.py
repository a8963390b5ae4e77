"""The attention functions of flash_attn and xformers, computed by torch itself.

The same arguments, layouts and results on every device: torch chooses the fused kernel of an NPU
or a GPU. If the package itself is installed, its own functions are used."""

# jumar: ignore-file

from __future__ import annotations

import importlib

import torch
from torch import Tensor
from torch.nn import functional

EVERYTHING = (-1, -1)


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = EVERYTHING,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
) -> Tensor:
    """Attention of (batch, length, heads, size); keys may have fewer heads than queries."""
    q, k, v = (part.transpose(1, 2) for part in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    same_length = q.shape[2] == k.shape[2]
    if alibi_slopes is None and tuple(window_size) == EVERYTHING and (same_length or not causal):
        return functional.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout_p, is_causal=causal, scale=softmax_scale
        ).transpose(1, 2)
    seen = _seen(q.shape[2], k.shape[2], causal, window_size, q.device)
    # A query that sees nothing gives zeros; letting it see everything keeps the gradient finite.
    sighted = seen.any(-1, keepdim=True)
    mask = seen | ~sighted
    if alibi_slopes is not None:
        mask = _alibi(alibi_slopes, mask, q)
    found = functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout_p, scale=softmax_scale
    )
    return (found * sighted).transpose(1, 2)


def _distance(queries: int, keys: int, device: torch.device) -> Tensor:
    """How far each key is behind each query, if both end together."""
    at = torch.arange(queries, device=device)[:, None] + (keys - queries)
    return at - torch.arange(keys, device=device)[None, :]


def _seen(
    queries: int, keys: int, causal: bool, window: tuple[int, int], device: torch.device
) -> Tensor:
    behind = _distance(queries, keys, device)
    left, right = window[0], 0 if causal else window[1]
    seen = torch.ones_like(behind, dtype=torch.bool)
    if left >= 0:
        seen = seen & (behind <= left)
    if right >= 0:
        seen = seen & (behind >= -right)
    return seen


def _alibi(slopes: Tensor, seen: Tensor, q: Tensor) -> Tensor:
    behind = _distance(seen.shape[0], seen.shape[1], q.device).abs()
    bias = -slopes.reshape(-1, q.shape[1], 1, 1).to(q.dtype) * behind.to(q.dtype)
    return bias.masked_fill(~seen, float("-inf"))


def flash_attn_kvpacked_func(q: Tensor, kv: Tensor, *arguments, **named) -> Tensor:
    """The same with keys and values in one tensor: (batch, length, 2, heads, size)."""
    return flash_attn_func(q, *kv.unbind(-3), *arguments, **named)


def flash_attn_qkvpacked_func(qkv: Tensor, *arguments, **named) -> Tensor:
    """The same with all three in one tensor: (batch, length, 3, heads, size)."""
    return flash_attn_func(*qkv.unbind(-3), *arguments, **named)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = EVERYTHING,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
) -> Tensor:
    """Attention over concatenated sequences: (tokens, heads, size), cut at `cu_seqlens`."""
    found = [
        flash_attn_func(
            q[None, q_from:q_to],
            k[None, k_from:k_to],
            v[None, k_from:k_to],
            dropout_p,
            softmax_scale,
            causal,
            window_size,
            alibi_slopes if alibi_slopes is None or alibi_slopes.dim() == 1 else alibi_slopes[n],
        )[0]
        for n, ((q_from, q_to), (k_from, k_to)) in enumerate(
            zip(_spans(cu_seqlens_q), _spans(cu_seqlens_k))
        )
    ]
    return torch.cat(found)


def _spans(cuts: Tensor) -> list[tuple[int, int]]:
    at = cuts.tolist()
    return list(zip(at, at[1:]))


def flash_attn_varlen_kvpacked_func(q: Tensor, kv: Tensor, *arguments, **named) -> Tensor:
    """The same with keys and values in one tensor: (tokens, 2, heads, size)."""
    return flash_attn_varlen_func(q, *kv.unbind(-3), *arguments, **named)


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor, cu_seqlens: Tensor, max_seqlen: int, *arguments, **named
) -> Tensor:
    """The same with all three in one tensor: (tokens, 3, heads, size)."""
    return flash_attn_varlen_func(
        *qkv.unbind(-3), cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *arguments, **named
    )


# The names of flash_attn 1.
flash_attn_unpadded_func = flash_attn_varlen_func
flash_attn_unpadded_kvpacked_func = flash_attn_varlen_kvpacked_func
flash_attn_unpadded_qkvpacked_func = flash_attn_varlen_qkvpacked_func


def index_first_axis(input: Tensor, indices: Tensor) -> Tensor:
    """The requested rows of a tensor."""
    return input[indices]


def unpad_input(
    hidden_states: Tensor, attention_mask: Tensor
) -> tuple[Tensor, Tensor, Tensor, int]:
    """The rows that the mask keeps, their indices, where each sequence ends, the longest length."""
    lengths = attention_mask.sum(dim=-1, dtype=torch.int32)
    indices = attention_mask.flatten().nonzero(as_tuple=False).flatten()
    ends = functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    return hidden_states.flatten(0, 1)[indices], indices, ends, int(lengths.max())


def pad_input(hidden_states: Tensor, indices: Tensor, batch: int, seqlen: int) -> Tensor:
    """The rows back at their indices, zeros elsewhere."""
    rows = hidden_states.new_zeros(batch * seqlen, *hidden_states.shape[1:])
    return rows.index_copy(0, indices, hidden_states).unflatten(0, (batch, seqlen))


def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The parts of a tensor along one dimension."""
    return torch.unbind(x, dim)


class LowerTriangularMask:
    """Each query sees the keys up to its own position."""


def memory_efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | LowerTriangularMask | None = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op=None,
) -> Tensor:
    """Attention of xformers: (batch, length, heads, size) or (batch, length, size)."""
    if query.dim() == 3:
        bias = attn_bias[:, None] if isinstance(attn_bias, Tensor) else attn_bias
        parts = (part[:, :, None] for part in (query, key, value))
        return memory_efficient_attention(*parts, bias, p, scale)[:, :, 0]
    is_causal = isinstance(attn_bias, LowerTriangularMask)
    q, k, v = (part.transpose(1, 2) for part in (query, key, value))
    mask = attn_bias if isinstance(attn_bias, Tensor) else None
    return functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=p, is_causal=is_causal, scale=scale
    ).transpose(1, 2)


def _prefer(*modules: str) -> None:
    """Use the functions of installed packages instead of those above."""
    for module in modules:
        try:
            package = importlib.import_module(module)
        except ImportError:
            continue
        globals().update({n: v for n, v in vars(package).items() if n in globals() and n[0] != "_"})


_prefer("flash_attn", "flash_attn.bert_padding", "xformers.ops")
