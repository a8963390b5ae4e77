"""Operators that only the plug-in has, written with torch's own and the same arithmetic.

Gradients follow from the operators they are made of. Internal formats of the chip have no meaning
here: a cast to one gives the tensor as it is. An operator that is not here raises AttributeError."""

from typing import Any, List, Optional, Tuple

import torch
import torch.nn.functional as F

from torch_npu._sim import refuse
from torch_npu._sim.attention import npu_fusion_attention, npu_prompt_flash_attention
from torch_npu._sim.boxes import npu_ciou, npu_diou, npu_giou, npu_iou, npu_ptiou
from torch_npu._sim.experts import (
    npu_grouped_matmul,
    npu_moe_gating_top_k_softmax,
    npu_moe_token_permute,
    npu_moe_token_unpermute,
)

Tensor = torch.Tensor

__all__ = [
    "fast_gelu",
    "get_npu_format",
    "npu_add_layer_norm",
    "npu_add_rms_norm",
    "npu_alloc_float_status",
    "npu_bmmV2",
    "npu_broadcast",
    "npu_ciou",
    "npu_clear_float_status",
    "npu_confusion_transpose",
    "npu_conv2d",
    "npu_cross_entropy_loss",
    "npu_deep_norm",
    "npu_diou",
    "npu_dropout_with_add_softmax",
    "npu_dtype_cast",
    "npu_fast_gelu",
    "npu_format_cast",
    "npu_format_cast_",
    "npu_fusion_attention",
    "npu_geglu",
    "npu_gelu",
    "npu_get_float_status",
    "npu_giou",
    "npu_group_norm_silu",
    "npu_grouped_matmul",
    "npu_interleave_rope",
    "npu_iou",
    "npu_layer_norm_eval",
    "npu_linear",
    "npu_mish",
    "npu_moe_gating_top_k_softmax",
    "npu_moe_token_permute",
    "npu_moe_token_unpermute",
    "npu_one_hot",
    "npu_prompt_flash_attention",
    "npu_ptiou",
    "npu_reshape",
    "npu_rms_norm",
    "npu_rotary_mul",
    "npu_scaled_masked_softmax",
    "npu_silu",
    "npu_slice",
    "npu_softmax_cross_entropy_with_logits",
    "npu_sort_v2",
    "npu_swiglu",
    "npu_transpose",
]


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


def _rotate_half(x: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return torch.cat((-right, left), -1)


def _rotate_pairs(x: Tensor) -> Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def npu_rotary_mul(
    self: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Optional[Tensor] = None
) -> Tensor:
    """x · cos + rotated(x) · sin, by halves or by pairs."""
    turn = _rotate_half if rotary_mode == "half" else _rotate_pairs
    return self * r1 + turn(self) * r2


def npu_interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of interleaved pairs, given back by halves."""
    halves = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    return halves * cos + _rotate_half(halves) * sin


def npu_scaled_masked_softmax(
    x: Tensor, mask: Tensor, scale: float = 1, fixed_triu_mask: bool = False
) -> Tensor:
    """softmax of x · scale, with -10000 where the mask is set."""
    if fixed_triu_mask:
        mask = torch.ones_like(x, dtype=torch.bool).triu(1)
    return F.softmax((x * scale).masked_fill(mask.bool(), -10000.0), -1)


def npu_dropout_with_add_softmax(
    self: Tensor, x1: Tensor, alpha: float, prob: float, dim: int
) -> Tuple[Tensor, Tensor, Tensor]:
    """The mask, the softmax of self + alpha · x1, and its dropout."""
    soft = F.softmax(x1 + self * alpha, dim)
    dropped, mask = torch.native_dropout(soft, prob, True)
    return mask, soft, dropped


def npu_softmax_cross_entropy_with_logits(self: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of each row against soft labels."""
    return -(labels * F.log_softmax(self, -1)).sum(-1)


def npu_cross_entropy_loss(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    lse_square_scale_for_zloss: float = 0.0,
    return_zloss: bool = False,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cross entropy, log probabilities, the z-loss and the logarithms of the sums."""
    loss = F.cross_entropy(
        input,
        target,
        weight,
        reduction=reduction,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
    )
    sums = torch.logsumexp(input, -1)
    return loss, F.log_softmax(input, -1), lse_square_scale_for_zloss * sums.pow(2), sums


def npu_linear(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """A linear layer."""
    return F.linear(input, weight, bias)


def npu_conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    stride: List[int],
    padding: List[int],
    dilation: List[int],
    groups: int,
) -> Tensor:
    """A convolution."""
    return F.conv2d(input, weight, bias, stride, padding, dilation, groups)


def npu_bmmV2(self: Tensor, mat2: Tensor, output_sizes: List[int]) -> Tensor:
    """A batched product."""
    product = torch.matmul(self, mat2)
    return product.reshape(output_sizes) if output_sizes else product


def npu_format_cast(self: Tensor, acl_format: Any, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor as it is: formats are the chip's business."""
    return self


npu_format_cast_ = npu_format_cast


def get_npu_format(self: Tensor) -> int:
    """2, the plain format."""
    return 2


def npu_dtype_cast(self: Tensor, dtype: torch.dtype, input_dtype: Optional[int] = None) -> Tensor:
    """A cast."""
    return self.to(dtype)


def npu_transpose(self: Tensor, perm: List[int], require_contiguous: bool = True) -> Tensor:
    """Dimensions in another order."""
    return self.permute(perm).contiguous() if require_contiguous else self.permute(perm)


def npu_confusion_transpose(
    self: Tensor, perm: List[int], shape: List[int], transpose_first: bool
) -> Tensor:
    """A transposition and a reshape, in either order."""
    if transpose_first:
        return self.permute(perm).reshape(shape)
    return self.reshape(shape).permute(perm).contiguous()


def npu_reshape(self: Tensor, shape: List[int], can_refresh: bool = False) -> Tensor:
    """Another shape."""
    return self.reshape(shape)


def npu_broadcast(self: Tensor, size: List[int]) -> Tensor:
    """Repeated along dimensions of size one."""
    return self.expand(size).contiguous()


def npu_slice(self: Tensor, offsets: List[int], size: List[int]) -> Tensor:
    """A part, by its corner and its size."""
    parts = tuple(slice(first, first + length) for first, length in zip(offsets, size))
    return self[parts].contiguous()


def npu_one_hot(
    self: Tensor, num_classes: int = -1, depth: int = 1, on_value: float = 1, off_value: float = 0
) -> Tensor:
    """One row a class index."""
    classes = torch.arange(depth, device=self.device)
    hit = self.unsqueeze(-1) == classes
    return torch.where(hit, float(on_value), float(off_value))


def npu_sort_v2(self: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """Sorted values without their indices."""
    return torch.sort(self, dim, descending).values


def npu_alloc_float_status(self: Tensor) -> Tensor:
    """A place for the overflow flags of chips without infinity."""
    return torch.zeros(8, device=self.device)


def npu_get_float_status(self: Tensor, mode: int = 0) -> Tensor:
    """The overflow flags; none is ever set."""
    return torch.zeros(8, device=self.device)


def npu_clear_float_status(self: Tensor, mode: int = 0) -> Tensor:
    """Forget the overflow flags."""
    return torch.zeros(8, device=self.device)
