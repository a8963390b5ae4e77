"""Jagged tensors: torch computes with their values below the classes, and puts the results together again
here, where they get the class of their device."""

from types import ModuleType
from typing import Any

from torch_npu._sim.tensor import TAGGED, tag


def prepare(module: ModuleType) -> None:
    """Give the values of a jagged tensor the device of its offsets."""
    kind: Any = module.NestedTensor
    make = kind.__new__

    def new(cls: Any, values: Any, offsets: Any, **options: Any) -> Any:
        if type(offsets) in TAGGED:
            tag(values, type(offsets))
        return make(cls, values, offsets, **options)

    kind.__new__ = staticmethod(new)


ON_IMPORT = {"torch.nested._internal.nested_tensor": prepare}
