"""Operators of the plug-in without a derivative: their results raise in a backward pass."""

from typing import Any, Callable, Tuple

import torch

Tensor = torch.Tensor


class _NoDerivative(torch.autograd.Function):
    """Passes a result on, and keeps the name of its operator for the error."""

    @staticmethod
    def forward(ctx: Any, name: str, result: Tensor, *inputs: Tensor) -> Tensor:
        ctx.name = name
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            f"derivative for npu::{ctx.name} is not implemented: call it inside a "
            "torch.autograd.Function with a backward of your own"
        )


def compute(name: str, function: Callable[[], Tensor], inputs: Tuple[Tensor, ...]) -> Tensor:
    """The result of an operator that cannot be differentiated, as on the device."""
    with torch.no_grad():
        result = function()
    return _NoDerivative.apply(name, result, *inputs)
