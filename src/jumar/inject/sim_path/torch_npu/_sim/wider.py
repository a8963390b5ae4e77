"""Functions that an accelerator runs in dtypes that the CPU does not support: here in float32."""

from typing import Any, Dict, Tuple

import torch

from torch_npu._sim.tensor import HANDLERS, Tensor, compute, find_class

_NAMES = ("histc",)


def _in_float(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    first = args[0] if args else kwargs["input"]
    cls = find_class((first,))
    if cls is None or first.is_floating_point():
        return compute(cls or find_class(kwargs.values()), func, args, kwargs)
    if args:
        args = (first.float(), *args[1:])
    else:
        kwargs = {**kwargs, "input": first.float()}
    return compute(cls, func, args, kwargs).to(first.dtype)


def install() -> None:
    """Put these before torch's own."""
    for name in _NAMES:
        for owner in (torch, Tensor):
            HANDLERS[getattr(owner, name)] = _in_float
