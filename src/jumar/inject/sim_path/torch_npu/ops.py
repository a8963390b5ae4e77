"""Operators that only the plug-in has, written with torch's own and the same arithmetic.

Gradients follow from the operators they are made of. Internal formats of the chip have no meaning
here: a cast to one gives the tensor as it is. An operator that is not here raises AttributeError."""

import math
from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F

from torch_npu._sim import refuse
from torch_npu._sim.attention import (
    npu_fusion_attention,
    npu_incre_flash_attention,
    npu_prompt_flash_attention,
)
from torch_npu._sim.boxes import npu_ciou, npu_diou, npu_giou, npu_iou, npu_ptiou
from torch_npu._sim.detection import (
    npu_batch_nms,
    npu_bounding_box_decode,
    npu_bounding_box_encode,
    npu_nms_v4,
    npu_nms_with_mask,
    npu_random_choice_with_mask,
)
from torch_npu._sim.experts import (
    npu_grouped_matmul,
    npu_moe_compute_expert_tokens,
    npu_moe_finalize_routing,
    npu_moe_gating_top_k_softmax,
    npu_moe_init_routing,
    npu_moe_token_permute,
    npu_moe_token_unpermute,
)
from torch_npu._sim.layouts import (
    empty_with_format,
    get_npu_format,
    npu_broadcast,
    npu_confusion_transpose,
    npu_dtype_cast,
    npu_dtype_cast_,
    npu_format_cast,
    npu_format_cast_,
    npu_indexing,
    npu_max,
    npu_min,
    npu_one_hot,
    npu_pad,
    npu_reshape,
    npu_scatter_nd_update,
    npu_scatter_nd_update_,
    npu_slice,
    npu_sort_v2,
    npu_transpose,
    one_,
)
from torch_npu._sim.norms import (
    npu_add_layer_norm,
    npu_add_rms_norm,
    npu_add_rms_norm_cast,
    npu_deep_norm,
    npu_gemma_rms_norm,
    npu_group_norm_silu,
    npu_group_norm_swish,
    npu_layer_norm_eval,
    npu_rms_norm,
)

Tensor = torch.Tensor

__all__ = [
    "empty_with_format",
    "fast_gelu",
    "get_npu_format",
    "npu_add_layer_norm",
    "npu_add_rms_norm",
    "npu_add_rms_norm_cast",
    "npu_alloc_float_status",
    "npu_apply_adam",
    "npu_apply_rotary_pos_emb",
    "npu_batch_nms",
    "npu_bmmV2",
    "npu_bounding_box_decode",
    "npu_bounding_box_encode",
    "npu_broadcast",
    "npu_ciou",
    "npu_clear_float_status",
    "npu_confusion_transpose",
    "npu_conv2d",
    "npu_conv3d",
    "npu_conv_transpose2d",
    "npu_convolution",
    "npu_cross_entropy_loss",
    "npu_deep_norm",
    "npu_diou",
    "npu_dropout_with_add_softmax",
    "npu_dtype_cast",
    "npu_dtype_cast_",
    "npu_fast_gelu",
    "npu_format_cast",
    "npu_format_cast_",
    "npu_fusion_attention",
    "npu_geglu",
    "npu_gelu",
    "npu_gelu_mul",
    "npu_gemma_rms_norm",
    "npu_get_float_status",
    "npu_giou",
    "npu_group_norm_silu",
    "npu_group_norm_swish",
    "npu_grouped_matmul",
    "npu_incre_flash_attention",
    "npu_indexing",
    "npu_interleave_rope",
    "npu_iou",
    "npu_layer_norm_eval",
    "npu_linear",
    "npu_masked_softmax_with_rel_pos_bias",
    "npu_max",
    "npu_min",
    "npu_mish",
    "npu_moe_compute_expert_tokens",
    "npu_moe_finalize_routing",
    "npu_moe_gating_top_k_softmax",
    "npu_moe_init_routing",
    "npu_moe_token_permute",
    "npu_moe_token_unpermute",
    "npu_nms_v4",
    "npu_nms_with_mask",
    "npu_one_hot",
    "npu_pad",
    "npu_prompt_flash_attention",
    "npu_ptiou",
    "npu_random_choice_with_mask",
    "npu_reshape",
    "npu_rms_norm",
    "npu_rotary_mul",
    "npu_scaled_masked_softmax",
    "npu_scatter_nd_update",
    "npu_scatter_nd_update_",
    "npu_silu",
    "npu_silu_",
    "npu_slice",
    "npu_softmax_cross_entropy_with_logits",
    "npu_sort_v2",
    "npu_swiglu",
    "npu_transpose",
    "one_",
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


def npu_masked_softmax_with_rel_pos_bias(
    x: Tensor,
    atten_mask: Optional[Tensor],
    relative_pos_bias: Tensor,
    scale_value: float = 1.0,
    inner_precision_mode: int = 0,
) -> Tensor:
    """softmax of x · scale plus a mask and a bias of positions."""
    scores = x * scale_value + relative_pos_bias
    return F.softmax(scores if atten_mask is None else scores + atten_mask, -1)


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
    zloss = lse_square_scale_for_zloss * sums.pow(2) if return_zloss else input.new_empty(0)
    loss = loss.reshape(1) if reduction != "none" else loss
    return loss, F.log_softmax(input, -1), zloss, sums


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


def npu_conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    stride: List[int],
    padding: List[int],
    dilation: List[int],
    groups: int,
) -> Tensor:
    """A convolution of volumes."""
    return F.conv3d(input, weight, bias, stride, padding, dilation, groups)


def npu_convolution(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    stride: List[int],
    padding: List[int],
    dilation: List[int],
    groups: int,
) -> Tensor:
    """A convolution of images or volumes."""
    run = npu_conv3d if input.dim() == 5 else npu_conv2d
    return run(input, weight, bias, stride, padding, dilation, groups)


def npu_conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    padding: List[int],
    output_padding: List[int],
    stride: List[int],
    dilation: List[int],
    groups: int,
) -> Tensor:
    """A transposed convolution."""
    return F.conv_transpose2d(
        input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def npu_bmmV2(self: Tensor, mat2: Tensor, output_sizes: List[int]) -> Tensor:
    """A batched product."""
    product = torch.matmul(self, mat2)
    return product.reshape(output_sizes) if output_sizes else product


def npu_apply_adam(
    beta1_power: float,
    beta2_power: float,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: Tensor,
    use_locking: Optional[bool],
    use_nesterov: Optional[bool],
    *,
    out: Tuple[Tensor, Tensor, Tensor],
) -> Tuple[Tensor, Tensor, Tensor]:
    """One step of Adam on the weights and the two moments given as `out`."""
    weights, first, second = out
    with torch.no_grad():
        first.lerp_(grad, 1 - beta1)
        second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        step = lr * math.sqrt(1 - beta2_power) / (1 - beta1_power)
        ahead = first * beta1 + grad * (1 - beta1) if use_nesterov else first
        weights.addcdiv_(ahead, second.sqrt().add_(epsilon), value=-step)
    return weights, first, second


def npu_alloc_float_status(self: Tensor) -> Tensor:
    """A place for the overflow flags of chips without infinity."""
    return torch.zeros(8, device=self.device)


def npu_get_float_status(self: Tensor, mode: int = 0) -> Tensor:
    """The overflow flags; none is ever set."""
    return torch.zeros(8, device=self.device)


def npu_clear_float_status(self: Tensor, mode: int = 0) -> Tensor:
    """Forget the overflow flags."""
    return torch.zeros(8, device=self.device)
