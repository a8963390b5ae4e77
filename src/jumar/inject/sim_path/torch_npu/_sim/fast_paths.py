"""Torch's fast paths for attention and encoder layers, which `eval()` uses on any device.

They exclude tensor subclasses; device tensors are allowed, as on a real NPU."""

import sys
from typing import Any

import torch

from torch_npu._sim.tensor import TAGGED

_has_torch_function: Any = torch.overrides.has_torch_function
_ASKING = frozenset(("torch.nn.modules.activation", "torch.nn.modules.transformer"))


def _has(args: Any) -> bool:
    caller: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # others need the truth
    if caller.f_globals.get("__name__") in _ASKING:
        args = tuple(arg for arg in args if type(arg) not in TAGGED)
    return _has_torch_function(args)


def install() -> None:
    """Replace torch's own with it."""
    torch.overrides.has_torch_function = _has
