"""Modules of the plug-in's extras."""

import torch

from torch_npu import ops

__all__ = ["DropPath", "LabelSmoothingCrossEntropy", "Mish", "SiLU", "Swish"]


class Mish(torch.nn.Mish):
    """torch.nn.Mish."""


class SiLU(torch.nn.SiLU):
    """torch.nn.SiLU."""


Swish = SiLU


class FastGelu(torch.nn.Module):
    """The chip's quick GELU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it."""
        return ops.fast_gelu(x)


class LabelSmoothingCrossEntropy(torch.nn.Module):
    """Cross entropy with smoothed labels."""

    def __init__(self, num_classes: int = 1000, smooth_factor: float = 0.0) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.smooth_factor = smooth_factor

    def forward(self, pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The mean loss."""
        return torch.nn.functional.cross_entropy(pred, target, label_smoothing=self.smooth_factor)


class DropPath(torch.nn.Module):
    """Drops whole samples of a residual branch."""

    def __init__(self, drop_prob: float = 0.0) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop while training."""
        if not self.drop_prob or not self.training:
            return x
        keep = 1 - self.drop_prob
        shape = (x.shape[0],) + (1,) * (x.dim() - 1)
        return x * torch.empty(shape, dtype=x.dtype, device=x.device).bernoulli_(keep).div_(keep)
