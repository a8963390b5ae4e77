"""Switches of determinism that also switch inside the backward pass."""

from typing import Any, Tuple

import torch

__all__ = ["disable_deterministic_with_backward", "enable_deterministic_with_backward"]


class _Switch(torch.autograd.Function):
    """Sets determinism where a tensor passes, and the opposite where its gradient does."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]  # torch's own types allow any
        ctx: Any, tensor: torch.Tensor, deterministic: bool
    ) -> torch.Tensor:
        ctx.deterministic = deterministic
        torch.use_deterministic_algorithms(deterministic)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: torch.Tensor
    ) -> Tuple[torch.Tensor, None]:
        torch.use_deterministic_algorithms(not ctx.deterministic)
        return gradient, None


def enable_deterministic_with_backward(tensor: torch.Tensor) -> Any:
    """Deterministic from here on, and in the backward pass until here."""
    return _Switch.apply(tensor, True)


def disable_deterministic_with_backward(tensor: torch.Tensor) -> Any:
    """No longer deterministic from here on, and in the backward pass until here."""
    return _Switch.apply(tensor, False)
