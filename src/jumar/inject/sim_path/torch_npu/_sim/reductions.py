"""Reductions that HCCL does and gloo does not, carried out by gloo in the plug-in's way.

A factor is multiplied in before the sum, an average of integers divided after it, and dtypes that
gloo cannot add are added as wider ones."""

from contextlib import contextmanager
from typing import Any, Callable, Generator, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from torch_npu._sim import refuse
from torch_npu._sim.finishing import Finishing
from torch_npu._sim.tensor import without_functions

Tensor = torch.Tensor
_ReduceOp: Any = dist.ReduceOp
SUM, AVG = _ReduceOp.SUM, _ReduceOp.AVG
_KINDS = (_ReduceOp, _ReduceOp.RedOpType)
_NAMES = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
# The plug-in adds the first two as int32 as well; the others are foreign to gloo.
WIDER = {
    torch.bool: torch.int32,
    torch.uint8: torch.int32,
    torch.int16: torch.int32,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
    torch.uint64: torch.int64,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e5m2: torch.float32,
}


def flat(value: Any) -> List[Any]:
    """All tensors in nested lists."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in flat(item)]
    return []


def operation_in(args: Sequence[Any]) -> Any:
    """The reduction that the arguments of a collective name."""
    for arg in args:
        operation = getattr(arg, "reduceOp", arg)
        if isinstance(operation, _KINDS):
            return operation
    return SUM


def name_of(operation: Any) -> str:
    """The name of a reduction as torch spells it."""
    return next((name for name in _NAMES if operation == getattr(_ReduceOp, name)), "UNUSED")


def is_divided_after(operation: Any, dtype: torch.dtype) -> bool:
    """Whether it is an average that gloo refuses, since it divides no integers."""
    return operation == AVG and not (dtype.is_floating_point or dtype.is_complex)


class Plan(NamedTuple):
    """How gloo is to do a reduction."""

    factor: Optional[float]
    wider: Optional[torch.dtype]
    divides: bool

    @property
    def is_plain(self) -> bool:
        """Whether gloo does it by itself."""
        return self.factor is None and self.wider is None and not self.divides


def plan(args: Sequence[Any]) -> Plan:
    """How gloo is to do the reduction of these arguments."""
    tensors, operation = flat(args), operation_in(args)
    if not tensors:
        return Plan(None, None, divides=False)
    dtype = tensors[0].dtype
    return Plan(_factor_of(operation), WIDER.get(dtype), is_divided_after(operation, dtype))


def _factor_of(operation: Any) -> Optional[float]:
    if operation != _ReduceOp.PREMUL_SUM:
        return None
    factor = operation.__getstate__()[1]
    if isinstance(factor, Tensor):
        refuse.tensor_as_factor()
        return 0.0
    return float(factor)


def carry_out(
    method: Callable[..., Any], group: Any, args: Tuple[Any, ...], kwargs: Any, how: Plan
) -> Any:
    """Run a method of a process group whose first argument gets the results."""
    results, *rest = args
    inputs = flat(rest) or flat(results)
    with without_functions(), torch.no_grad():
        if how.wider is not None or (how.factor is not None and isinstance(rest[0], list)):
            # The plug-in copies lists of inputs before it scales them; others it scales in place.
            rest = [_copied(arg, how.wider) for arg in rest]
            results_run_on = _copied(results, how.wider)
            inputs = flat(rest) or flat(results_run_on)
        else:
            results_run_on = results
        if how.factor is not None:
            for tensor in inputs:
                tensor.mul_(how.factor)
        with _as_sum([results_run_on, *rest], how) as changed:
            work = method(group, *changed, **kwargs)
    pairs = list(zip(flat(results), flat(results_run_on)))
    if not how.divides and results_run_on is results:
        return work
    divisor = group.size() if how.divides else None
    return Finishing([work], pairs, divisor)


def _copied(value: Any, dtype: Optional[torch.dtype]) -> Any:
    if isinstance(value, Tensor):
        return value.clone() if dtype is None else value.to(dtype)
    if isinstance(value, (list, tuple)):
        return [_copied(item, dtype) for item in value]
    return value


@contextmanager
def _as_sum(args: List[Any], how: Plan) -> "Generator[List[Any], None, None]":
    """The arguments with a plain sum, where that is what gloo is to do."""
    if how.factor is None and not how.divides:
        yield args
        return
    options = [arg for arg in args if hasattr(arg, "reduceOp")]
    before = [option.reduceOp for option in options]
    for option in options:
        option.reduceOp = SUM
    try:
        yield [SUM if isinstance(arg, _KINDS) else arg for arg in args]
    finally:
        for option, operation in zip(options, before):
            option.reduceOp = operation
