"""Choices that torch makes by device type, made for wrappers as for the tensors inside.

Some functions pick another formula for CUDA before any operator runs: fused attention, and cuDNN for
batch norm. Here C++ sees a device called npu and would use the plain formula, whose last bits differ."""

import math
from typing import Any, List, Optional

import torch
import torch.nn.functional as F

from torch_npu._sim.card import inner_of
from torch_npu._sim.kernels import register
from torch_npu._sim.tensor import Tensor

_aten = torch.ops.aten
_MATH, _FLASH, _EFFICIENT, _CUDNN = 0, 1, 2, 3


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Any:
    mask = _as_float(attn_mask, query.dtype)
    needs_gradient = torch.is_grad_enabled() and any(
        tensor.requires_grad for tensor in (query, key, value)
    )
    choice = _choice(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa)
    if choice == _FLASH and inner_of(query).is_cpu:
        return _aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, dropout_p, is_causal, attn_mask=mask, scale=scale
        )[0]
    if choice == _FLASH:
        width = query.shape[-1]
        padded = [_pad_last(tensor, 8) for tensor in (query, key, value)]
        factor = 1.0 / math.sqrt(width) if scale is None else scale
        out = _aten._scaled_dot_product_flash_attention(
            *padded, dropout_p, is_causal, False, scale=factor
        )[0]
        return out if out.shape[-1] == width else out[..., :width]
    if choice == _EFFICIENT:
        return _aten._scaled_dot_product_efficient_attention(
            query,
            key,
            value,
            _expanded_mask(mask, query, key),
            needs_gradient,
            dropout_p,
            is_causal,
            scale=scale,
        )[0]
    if choice == _CUDNN:
        return _aten._scaled_dot_product_cudnn_attention(
            query, key, value, mask, needs_gradient, dropout_p, is_causal, False, scale=scale
        )[0]
    return _aten._scaled_dot_product_attention_math(
        query, key, value, mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )[0]


def _choice(query: Any, key: Any, value: Any, mask: Any, *options: Any) -> int:
    """What torch would choose for the wrapped tensors, given whether they need gradients."""
    dropout_p, is_causal, scale, enable_gqa = options
    choose: Any = torch._fused_sdp_choice
    inner: List[Any] = []
    for tensor in (query, key, value):
        within = inner_of(tensor).detach()
        inner.append(within.requires_grad_(tensor.requires_grad and torch.is_grad_enabled()))
    return choose(
        *inner,
        inner_of(mask) if mask is not None else None,
        dropout_p,
        is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )


def _as_float(mask: Optional[Tensor], dtype: torch.dtype) -> Optional[Tensor]:
    """An additive mask, from a boolean one that says where to attend."""
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask.logical_not(), -math.inf)


def _pad_last(tensor: Tensor, multiple: int) -> Tensor:
    missing = -tensor.shape[-1] % multiple
    return F.pad(tensor, (0, missing)) if missing else tensor


def _expanded_mask(mask: Optional[Tensor], query: Tensor, key: Tensor) -> Optional[Tensor]:
    """The mask for every head, its rows aligned as the kernel wants them."""
    if mask is None:
        return None
    keys = mask.shape[-1]
    if keys % 16:
        mask = _pad_last(mask, 16)[..., :keys]
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])


def _batch_norm(
    input: Tensor,
    weight: Optional[Tensor],
    bias: Optional[Tensor],
    running_mean: Optional[Tensor],
    running_var: Optional[Tensor],
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    tensors = (input, weight, bias, running_mean, running_var)
    backend = torch._C._BatchNormBackend.Native
    if cudnn_enabled:
        within = [None if tensor is None else inner_of(tensor) for tensor in tensors]
        backend = torch._C._select_batch_norm_backend(*within, training, eps)
    if backend == torch._C._BatchNormBackend.Cudnn:
        contiguous = input.contiguous(
            memory_format=torch._prims_common.suggest_memory_format(input)
        )
        return _aten.cudnn_batch_norm(contiguous, *tensors[1:], training, momentum, eps)[0]
    return _aten.native_batch_norm(*tensors, training, momentum, eps)[0]


def install() -> None:
    """Make these choices for device tensors."""
    register("scaled_dot_product_attention", _attention, "AutogradPrivateUse1")
    register("batch_norm", _batch_norm, "AutogradPrivateUse1")
