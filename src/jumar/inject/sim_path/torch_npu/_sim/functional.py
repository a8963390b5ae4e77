"""Functional collectives, as DTensor uses them: operators that reach process groups without Python.

They are checked as the methods of groups are (`hccl`); what gloo cannot do is done at once, and not
when its result is first read."""

import functools
from typing import Any, Callable, Dict, List, Tuple

import torch
import torch.distributed as dist

from torch_npu._sim import hccl, reductions
from torch_npu._sim.place import SETTINGS
from torch_npu._sim.tensor import HANDLERS, compute, find_class, without_functions

_RULES = {
    "all_reduce": "allreduce",
    "all_reduce_coalesced": "allreduce_coalesced",
    "reduce_scatter_tensor": "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "all_gather_into_tensor": "_allgather_base",
    "all_gather_into_tensor_coalesced": "allgather_into_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
    "broadcast": "broadcast",
}


def _group_of(args: Tuple[Any, ...]) -> Any:
    resolve: Any = dist.distributed_c10d._resolve_process_group
    return resolve(args[-1]) if isinstance(args[-1], str) else args[-1]


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    return [change(item) for item in value] if isinstance(value, (list, tuple)) else change(value)


def _waited(value: Any) -> Any:
    return _each(value, torch.ops._c10d_functional.wait_tensor)


def _reduce(cls: Any, func: Any, args: Tuple[Any, ...], operation: Any) -> Any:
    tensors, _, *rest = args
    dtype = reductions.flat(tensors)[0].dtype
    wider = reductions.WIDER.get(dtype)
    divides = reductions.is_divided_after(operation, dtype)
    if wider is None and not divides:
        return compute(cls, func, args, {})
    added = _each(tensors, lambda tensor: tensor.to(wider or dtype))
    results = _waited(compute(cls, func, (added, "sum" if divides else args[1], *rest), {}))
    if divides:
        size = dist.get_world_size(_group_of(args))
        results = _each(results, lambda one: one.div_(size, rounding_mode="trunc"))
    return _each(results, lambda one: one.to(dtype))


def _move(cls: Any, func: Any, args: Tuple[Any, ...]) -> Any:
    tensors, *rest = args
    dtype = reductions.flat(tensors)[0].dtype
    if dtype not in hccl.MOVED_AS:
        return compute(cls, func, args, {})
    moved = _each(tensors, lambda tensor: hccl.as_gloo_moves(tensor.contiguous()))
    results = _waited(compute(cls, func, (moved, *rest), {}))
    return _each(results, lambda one: one.view(dtype))


def _as_real(tensor: Any) -> Any:
    """Torch hands complex numbers to a group as pairs."""
    return torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor


def _run(rule: hccl.Rule, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    cls = find_class(args) or find_class(kwargs.values())
    tensors: List[Any] = reductions.flat(args[:1])
    if kwargs or not tensors or not hccl.communicates_by_hccl(_group_of(args)):
        return compute(cls, func, args, kwargs)
    operation = getattr(dist.ReduceOp, str(args[1]).upper(), None) if rule.reduces else None
    if SETTINGS.checks:
        with without_functions():
            hccl.check_tensors(rule, [_as_real(tensor) for tensor in tensors], operation)
    if rule.reduces:
        return _reduce(cls, func, args, operation)
    return _move(cls, func, args)


def install() -> None:
    """Handle the operators of functional collectives."""
    operators: Any = torch.ops._c10d_functional
    for name, method in _RULES.items():
        operator = getattr(operators, name, None)
        if operator is not None:
            handler = functools.partial(_run, hccl.rule(method))
            HANDLERS[operator] = HANDLERS[operator.default] = handler
