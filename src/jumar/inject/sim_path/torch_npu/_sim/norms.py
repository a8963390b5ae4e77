"""Norms, alone and fused with what often comes before or after them."""

from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F

Tensor = torch.Tensor


def npu_rms_norm(self: Tensor, gamma: Tensor, epsilon: float = 1e-06) -> Tuple[Tensor, Tensor]:
    """x / rms(x) · gamma over the dimensions of gamma, and 1 / rms(x)."""
    dims = tuple(range(-gamma.dim(), 0))
    wide = self.float()
    rstd = torch.rsqrt(wide.pow(2).mean(dims, keepdim=True) + epsilon)
    return (wide * rstd).to(self.dtype) * gamma, rstd


def npu_add_rms_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-06
) -> Tuple[Tensor, Tensor, Tensor]:
    """The norm of a sum, 1 / rms, and the sum."""
    total = x1 + x2
    normed, rstd = npu_rms_norm(total, gamma, epsilon)
    return normed, rstd, total


def npu_add_rms_norm_cast(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-06
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """The norm of a sum in float32 and in its own dtype, 1 / rms, and the sum."""
    normed, rstd, total = npu_add_rms_norm(x1, x2, gamma, epsilon)
    return normed.float(), normed, rstd, total


def npu_gemma_rms_norm(
    self: Tensor, gamma: Tensor, epsilon: float = 1e-06
) -> Tuple[Tensor, Tensor]:
    """x / rms(x) · (1 + gamma), and 1 / rms(x)."""
    return npu_rms_norm(self, 1 + gamma, epsilon)


def npu_add_layer_norm(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    beta: Tensor,
    epsilon: float = 1e-05,
    additional_output: bool = False,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """The layer norm of a sum, its mean and 1 / deviation, and the sum."""
    total = x1 + x2
    normed, mean, rstd = torch.native_layer_norm(total, list(gamma.shape), gamma, beta, epsilon)
    return normed, mean, rstd, total


def npu_deep_norm(
    x: Tensor, gx: Tensor, beta: Tensor, gamma: Tensor, alpha: float = 0.3, epsilon: float = 1e-06
) -> Tuple[Tensor, Tensor, Tensor]:
    """The mean, 1 / deviation and layer norm of alpha · x + gx."""
    normed, mean, rstd = torch.native_layer_norm(
        x * alpha + gx, list(gamma.shape), gamma, beta, epsilon
    )
    return mean, rstd, normed


def npu_layer_norm_eval(
    input: Tensor,
    normalized_shape: List[int],
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    eps: float = 1e-05,
) -> Tensor:
    """Layer norm."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def npu_group_norm_silu(
    input: Tensor,
    weight: Optional[Tensor],
    bias: Optional[Tensor],
    group: int,
    eps: float = 0.00001,
) -> Tuple[Tensor, Tensor, Tensor]:
    """The silu of a group norm, its mean and 1 / deviation."""
    batch, channels = input.shape[:2]
    rest = input[0, 0].numel()
    normed, mean, rstd = torch.native_group_norm(
        input.contiguous(), weight, bias, batch, channels, rest, group, eps
    )
    return F.silu(normed), mean, rstd


def npu_group_norm_swish(
    input: Tensor,
    num_groups: int,
    weight: Tensor,
    bias: Tensor,
    eps: float = 1e-5,
    swish_scale: float = 1.0,
) -> Tuple[Tensor, Tensor, Tensor]:
    """x · sigmoid(scale · x) of a group norm, its mean and 1 / deviation."""
    batch, channels = input.shape[:2]
    normed, mean, rstd = torch.native_group_norm(
        input.contiguous(), weight, bias, batch, channels, input[0, 0].numel(), num_groups, eps
    )
    return normed * torch.sigmoid(swish_scale * normed), mean, rstd
