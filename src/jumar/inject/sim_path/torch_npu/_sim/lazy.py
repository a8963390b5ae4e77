"""Parameters and buffers of lazy modules, which have no shape until the first batch.

Their class says that they are lazy, so it cannot say which device they are on: they record it, as
`moves` does for every tensor whose class we must not change."""

from typing import Any

import torch
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.nn.parameter import UninitializedTensorMixin as Lazy

from torch_npu._sim import moves, place
from torch_npu._sim import tensor as device_tensor
from torch_npu._sim.tensor import tag, without_functions

_materialize: Any = Lazy.materialize
_MOVES = ("cpu", "cuda", "double", "float", "half", "npu", "to")


def _move(name: str) -> Any:
    def move(self: Any, *args: Any, **kwargs: Any) -> Any:
        with without_functions():
            data = self.data
        moved = getattr(data, name)(*args, **kwargs)
        if isinstance(self, UninitializedParameter):
            return moved
        return type(self)(self.requires_grad, device=moved.device, dtype=moved.dtype)

    return move


def _materialized(self: Any, *args: Any, **kwargs: Any) -> None:
    _materialize(self, *args, **kwargs)
    there = self.__dict__.pop(moves.NOTED, None)
    if there is not None:
        with without_functions():
            tag(self, there)


def _made(make: Any) -> Any:
    def made(cls: Any, *args: Any, **kwargs: Any) -> Any:
        self = make(cls, *args, **kwargs)
        device = kwargs.get("device", args[1] if len(args) > 1 else None)
        index = place.index_of(torch.get_default_device() if device is None else device)
        if index is not None:
            self.__dict__[moves.NOTED] = device_tensor.CLASSES[index]
        return self

    return made


def install() -> None:
    """Let lazy modules be created on or moved to a device before they have a shape."""
    Lazy.materialize = _materialized
    for name in _MOVES:
        setattr(Lazy, name, _move(name))
    for kind in (UninitializedParameter, UninitializedBuffer):
        kind.__new__ = staticmethod(_made(kind.__new__))
