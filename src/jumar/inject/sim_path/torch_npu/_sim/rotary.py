"""Rotary embeddings of positions, as the plug-in's operators."""

from typing import Optional, Tuple

import torch

Tensor = torch.Tensor


def _rotate_half(x: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return torch.cat((-right, left), -1)


def _rotate_pairs(x: Tensor) -> Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def npu_rotary_mul(
    self: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Optional[Tensor] = None
) -> Tensor:
    """x · cos + rotated(x) · sin, by halves or by pairs."""
    if rotate is not None:
        return self * r1 + torch.matmul(self, rotate) * r2
    turn = _rotate_half if rotary_mode == "half" else _rotate_pairs
    return self * r1 + turn(self) * r2


def npu_apply_rotary_pos_emb(
    query: Tensor,
    key: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: str = "BSND",
    rotary_mode: str = "half",
) -> Tuple[Tensor, Tensor]:
    """Rotary embedding of queries and keys, in place; cos and sin fit the layout by broadcasting."""
    query.copy_(npu_rotary_mul(query, cos, sin, rotary_mode))
    key.copy_(npu_rotary_mul(key, cos, sin, rotary_mode))
    return query, key


def npu_interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of interleaved pairs, returned as halves."""
    halves = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    return halves * cos + _rotate_half(halves) * sin
