"""The overflow flags of chips without infinity; here none is ever set."""

import torch

Tensor = torch.Tensor


def npu_alloc_float_status(self: Tensor) -> Tensor:
    """A place for the overflow flags of chips without infinity."""
    return torch.zeros(8, device=self.device)


def npu_get_float_status(self: Tensor, mode: int = 0) -> Tensor:
    """The overflow flags; none is ever set."""
    return torch.zeros(8, device=self.device)


def npu_clear_float_status(self: Tensor, mode: int = 0) -> Tensor:
    """Forget the overflow flags."""
    return torch.zeros(8, device=self.device)
