"""In which dtypes the kernels of an NPU compute: the table `data/dtypes.tsv`.

An operator that is not in the table is taken to compute in any dtype."""

from typing import Any, Dict, FrozenSet, NamedTuple, Optional, Tuple

import torch

from torch_npu._sim import refuse
from torch_npu._sim.place import SETTINGS
from torch_npu._sim.settings import DATA


class Kernel(NamedTuple):
    """The kernel of an operator."""

    name: str
    argument: str
    """What the kernel calls its first argument."""
    dtypes: FrozenSet[torch.dtype]


def _read() -> Dict[str, Kernel]:
    lines = (DATA / "dtypes.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    lacking = frozenset(SETTINGS.chip.lacks)
    return {
        operator: Kernel(
            kernel,
            argument,
            frozenset(getattr(torch, name) for name in names.split(",") if name not in lacking),
        )
        for operator, kernel, argument, names in rows[1:]
    }


_KERNELS = _read()


def kernel_of(operator: str) -> Optional[Kernel]:
    """The kernel of an operator of aten, such as `mul.Tensor` or `mul_.Tensor`, if it is listed."""
    base = operator.partition(".")[0]
    return (
        _KERNELS.get(operator)
        or _KERNELS.get(base)
        or (_KERNELS.get(base.rstrip("_")) if not base.startswith("__") else None)
    )


def check(operator: str, kernel: Kernel, args: Tuple[Any, ...]) -> None:
    """Refuse a call in a dtype that the kernel does not support."""
    dtype = _dtype_of(args)
    if dtype is not None and dtype not in kernel.dtypes:
        refuse.missing_dtype(operator, kernel, dtype)


def _dtype_of(args: Tuple[Any, ...]) -> Optional[torch.dtype]:
    """The dtype of the first tensor; a number among the arguments takes the dtype of the others."""
    number: Optional[torch.dtype] = None
    for arg in args:
        first = arg[0] if isinstance(arg, (list, tuple)) and arg else arg
        if isinstance(first, torch.Tensor):
            if first.dim():
                return first.dtype
            number = number or first.dtype
    return number
