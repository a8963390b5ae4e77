"""Functions of the plug-in's extras."""

from typing import Any

import torch

from torch_npu.ops import fast_gelu, npu_iou, npu_ptiou

__all__ = ["fast_gelu", "matmul_transpose", "npu_iou", "npu_ptiou", "roll"]


def matmul_transpose(tensor1: torch.Tensor, tensor2: torch.Tensor) -> torch.Tensor:
    """a · bᵀ."""
    return torch.matmul(tensor1, tensor2.transpose(-2, -1))


def roll(input1: torch.Tensor, shifts: Any, dims: Any) -> torch.Tensor:
    """torch.roll."""
    return torch.roll(input1, shifts, dims)
