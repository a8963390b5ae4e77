"""One step of an optimizer as one operator."""

import math
from typing import Optional, Tuple

import torch

Tensor = torch.Tensor


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
