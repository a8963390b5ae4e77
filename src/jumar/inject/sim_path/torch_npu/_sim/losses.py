"""Softmaxes and losses of the plug-in."""

from typing import Optional, Tuple

import torch
import torch.nn.functional as F

Tensor = torch.Tensor


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


def npu_fused_linear_online_max_sum(
    input: Tensor,
    weight: Tensor,
    target: Tensor,
    vocab_start_index: int,
    vocab_end_index: int,
    return_logits: bool = False,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """One device's part of a cross entropy whose vocabulary is split over several.

    Highest logits, sums, logits of the targets, which targets lie elsewhere (as bits), the targets
    counted from here, and the logits."""
    logits = torch.matmul(input, weight.t())
    wide = logits.float()
    highest = wide.amax(-1)
    differences = wide - highest.unsqueeze(-1)
    elsewhere = (target < vocab_start_index) | (target > vocab_end_index)
    here = (target - vocab_start_index).masked_fill(elsewhere, 0)
    of_target = differences.gather(-1, here.long().unsqueeze(-1)).squeeze(-1)
    return (
        highest,
        differences.exp().sum(-1),
        of_target.masked_fill(elsewhere, 0.0),
        _as_bits(elsewhere),
        here,
        logits if return_logits else input.new_empty(0),
    )


def _as_bits(flags: Tensor) -> Tensor:
    """Eight flags per byte, the first in the highest bit; the last byte is padded with ones."""
    padded = F.pad(flags.to(torch.uint8), (0, -flags.numel() % 8), value=1)
    return (padded.view(-1, 8) << _places(flags)).sum(-1).to(torch.uint8)


def _from_bits(packed: Tensor, count: int) -> Tensor:
    return ((packed.unsqueeze(-1) >> _places(packed)) & 1).flatten()[:count].bool()


def _places(tensor: Tensor) -> Tensor:
    return torch.arange(7, -1, -1, dtype=torch.uint8, device=tensor.device)


def npu_fused_cross_entropy_loss_with_max_sum(
    logits_max: Tensor,
    sum_exp_logits: Tensor,
    predicted_logits: Tensor,
    *,
    label_smoothing: float = 0.0,
    input: Optional[Tensor] = None,
    weight: Optional[Tensor] = None,
    vocab_parallel_logits: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """The losses, and the softmax where the logits are given, of sums over all devices."""
    loss = torch.log(sum_exp_logits) - predicted_logits
    if vocab_parallel_logits is None:
        return loss, loss.new_empty(0)
    return loss, _softmax(vocab_parallel_logits, logits_max, sum_exp_logits)


def _softmax(logits: Tensor, highest: Tensor, total: Tensor) -> Tensor:
    return torch.exp(logits.float() - highest.unsqueeze(-1)) / total.unsqueeze(-1)


def npu_fused_linear_cross_entropy_loss_with_max_sum_backward(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    target_mask: Tensor,
    masked_target: Tensor,
    label_smoothing: float = 0.0,
    logits_max: Optional[Tensor] = None,
    sum_exp_logits: Optional[Tensor] = None,
    softmax: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """The gradients of the input and of this device's part of the weight."""
    if softmax is None:
        if logits_max is None or sum_exp_logits is None:
            raise RuntimeError("without softmax, logits_max and sum_exp_logits are needed")
        softmax = _softmax(torch.matmul(input, weight.t()), logits_max, sum_exp_logits)
    here = 1 - _from_bits(target_mask, grad.numel()).float()
    rows = torch.arange(grad.numel(), device=grad.device)
    to_logits = softmax.index_put((rows, masked_target.long()), -here, accumulate=True)
    to_logits = (to_logits * grad.unsqueeze(-1)).to(input.dtype)
    return torch.matmul(to_logits, weight), torch.matmul(to_logits.t(), input)
