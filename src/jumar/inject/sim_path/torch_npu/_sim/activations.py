"""Activations of the plug-in, and their products with a gate."""

from typing import Optional, Tuple

import torch
import torch.nn.functional as F

from torch_npu._sim import refuse

Tensor = torch.Tensor


def fast_gelu(self: Tensor) -> Tensor:
    """x · e^(0.851(x−|x|)) / (1 + e^(−1.702|x|)), the chip's quick GELU."""
    _on_device(self, "fast_gelu")
    size = self.abs()
    return self * torch.exp(0.851 * (self - size)) / (1 + torch.exp(-1.702 * size))


npu_fast_gelu = fast_gelu


def _on_device(tensor: Tensor, name: str) -> None:
    if tensor.device.type != "npu":
        refuse.refuse(
            NotImplementedError,
            f"Could not run 'npu::{name}' with arguments from the 'CPU' backend.",
            f"{name} of a tensor on the host",
        )


def npu_gelu(self: Tensor, *, approximate: str = "none") -> Tensor:
    """GELU."""
    return F.gelu(self, approximate=approximate)


def npu_silu(self: Tensor) -> Tensor:
    """SiLU."""
    return F.silu(self)


def npu_mish(self: Tensor) -> Tensor:
    """Mish."""
    return F.mish(self)


def npu_silu_(self: Tensor) -> Tensor:
    """SiLU in place."""
    return F.silu(self, inplace=True)


def npu_gelu_mul(input: Tensor, *, approximate: str = "none") -> Tensor:
    """gelu(a) · b for the two halves a and b."""
    left, right = input.chunk(2, -1)
    return F.gelu(left, approximate=approximate) * right


def npu_swiglu(self: Tensor, dim: int = -1) -> Tensor:
    """silu(a) · b for the two halves a and b."""
    left, right = self.chunk(2, dim)
    return F.silu(left) * right


def npu_geglu(
    self: Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False
) -> Tuple[Tensor, Tensor]:
    """gelu of one half times the other, and the gelu."""
    left, right = self.chunk(2, dim)
    if not activate_left:
        left, right = right, left
    gelu = F.gelu(left, approximate="tanh" if approximate else "none")
    return right * gelu, gelu


def npu_clipped_swiglu(
    x: Tensor,
    *,
    group_index: Optional[Tensor] = None,
    dim: int = -1,
    alpha: float = 1.702,
    limit: float = 7.0,
    bias: float = 1.0,
    interleaved: bool = True,
) -> Tensor:
    """a · sigmoid(alpha · a) · (b + bias), a and b bounded; a and b alternate, or are the halves."""
    if group_index is not None:
        # The device leaves rows past the last group unset.
        raise NotImplementedError("npu_clipped_swiglu with group_index is not simulated")
    parts = x.unflatten(dim, (-1, 2) if interleaved else (2, -1))
    at = dim if dim < 0 else dim - x.dim()
    left, right = parts.unbind(at if interleaved else at - 1)
    left, right = left.clamp(max=limit), right.clamp(-limit, limit)
    return left * torch.sigmoid(alpha * left) * (right + bias)
