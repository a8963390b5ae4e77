"""Functions of the plug-in's extras."""

import math
from typing import Any

import torch

from torch_npu._sim import absent
from torch_npu.ops import (
    fast_gelu,
    npu_ciou,
    npu_diou,
    npu_dropout_with_add_softmax,
    npu_giou,
    npu_iou,
    npu_ptiou,
)

__all__ = [
    "dropout_with_byte_mask",
    "fast_gelu",
    "fuse_add_softmax_dropout",
    "matmul_transpose",
    "npu_ciou",
    "npu_diou",
    "npu_fast_condition_index_put",
    "npu_giou",
    "npu_iou",
    "npu_ptiou",
    "roll",
]

__getattr__ = absent.of_module(__name__)


def matmul_transpose(tensor1: torch.Tensor, tensor2: torch.Tensor) -> torch.Tensor:
    """a · bᵀ."""
    return torch.matmul(tensor1, tensor2.transpose(-2, -1))


def roll(input1: torch.Tensor, shifts: Any, dims: Any) -> torch.Tensor:
    """torch.roll."""
    return torch.roll(input1, shifts, dims)


def npu_fast_condition_index_put(x: torch.Tensor, condition: torch.Tensor, value: Any) -> Any:
    """A copy of `x` with `value` where `condition` is true."""
    if condition.dtype is not torch.bool:
        raise TypeError("Expected condition.dtype in [torch.bool]")
    return x.masked_fill(condition, value)


def dropout_with_byte_mask(
    input1: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    """torch.nn.functional.dropout."""
    if inplace:
        raise ValueError("dropout probability has no-inplace computing.")
    return torch.nn.functional.dropout(input1, p, training)


def fuse_add_softmax_dropout(
    training: bool,
    dropout: Any,
    attn_mask: torch.Tensor,
    attn_scores: torch.Tensor,
    attn_head_size: float,
    p: float = 0.5,
    dim: int = -1,
) -> torch.Tensor:
    """The weights of attention from its scores."""
    scale = 1 / math.sqrt(attn_head_size)
    return npu_dropout_with_add_softmax(attn_scores, attn_mask, scale, p if training else 0.0, dim)[
        2
    ]
