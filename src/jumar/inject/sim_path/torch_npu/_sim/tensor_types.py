"""Old names of tensor types, `torch.npu.FloatTensor` and the like, where torch's own functions take
them: `tensor.type(…)` of a tensor on the host, and the default tensor type."""

import functools
from typing import Any

import torch

from torch_npu._sim import methods
from torch_npu._sim.tensor import Tensor

_torch_type = Tensor.type
_set_default_tensor_type = torch.set_default_tensor_type


def _is_npu_type(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind.startswith("torch.npu.")
    return getattr(kind, "__module__", "") == "torch.npu"


def _type(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    if _is_npu_type(dtype):
        name = dtype if isinstance(dtype, str) else dtype.__name__
        there = self.device if self.device.type == "npu" else "npu"
        return self.to(there, methods.dtype_named(name), non_blocking)
    return _torch_type(self, dtype, non_blocking, **kwargs)


@functools.wraps(_set_default_tensor_type)
def _set_default(t: Any) -> None:
    if not _is_npu_type(t):
        _set_default_tensor_type(t)
        torch.set_default_device("cpu")
        return
    torch.set_default_dtype(methods.dtype_named(t if isinstance(t, str) else t.__name__))
    torch.set_default_device("npu")


def install() -> None:
    """Replace torch's own with these."""
    Tensor.type = _type
    torch.set_default_tensor_type = _set_default
