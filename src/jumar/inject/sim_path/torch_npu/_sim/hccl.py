"""What HCCL refuses, checked before gloo runs a collective; the rules are in `collectives.json`.

The methods of process groups are wrapped, since everything in Python that communicates calls them,
but for functional collectives, which have operators of their own (`functional`). What HCCL does and
gloo does not is done another way: some dtypes travel as others of the same width, and `reductions`
knows the rest."""

import functools
import json
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import torch
import torch.distributed as dist

from torch_npu._sim import memory, place, reductions, refuse, uneven
from torch_npu._sim.place import SETTINGS
from torch_npu._sim.reductions import flat
from torch_npu._sim.settings import DATA
from torch_npu._sim.tensor import TAGGED, without_functions

Tensor = torch.Tensor
_RULES: Dict[str, Any] = json.loads((DATA / "collectives.json").read_text("utf-8"))
_ASCEND_950 = 260
_REDUCED = frozenset(
    _RULES["reduced"]
    + (_RULES["also_reduced_on_a5"] if SETTINGS.chip.soc_version >= _ASCEND_950 else [])
)
_LIMITS: Dict[str, List[str]] = _RULES["limits"].get(SETTINGS.chip.generation, {})
_NOT_REDUCED = frozenset(_LIMITS.get("not_reduced", ()))
_NOT_MULTIPLIED = frozenset(_LIMITS.get("not_multiplied", ()))
MOVED_AS = {
    torch.int16: torch.float16,
    torch.uint16: torch.float16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
}
"""What gloo moves in place of dtypes that it does not know."""
_INSTEAD_OF_GATHER = (
    "HCCL doesn't support gather at the moment. Implemented with allgather instead."
)


class Rule(NamedTuple):
    """What HCCL asks of one collective."""

    name: str
    layouts: Tuple[str, ...]
    reduces: bool
    casts: Tuple[str, ...]
    """Dtypes that the plug-in reduces as int32."""


def rule(name: str) -> Rule:
    """The rule of a method of process groups."""
    row = _RULES["collectives"][name]
    casts = tuple(row.get("casts", ()))
    return Rule(name, tuple(row["tensors"]), row.get("reduces", False), casts)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).replace("torch.", "")


def _is_on_device(tensor: Any) -> bool:
    return type(tensor) in TAGGED or tensor.device.type == "npu" or memory.holder(tensor) >= 0


def communicates_by_hccl(group: Any) -> bool:
    """Whether `group` uses hccl for device tensors, and has nothing else for those of the host."""
    config = dist.distributed_c10d._world.pg_backend_config.get(group, "")
    return "cpu:hccl" in config


def _refuse(rule: Rule, message: str, what: str) -> None:
    refuse.refuse(RuntimeError, message, f"{rule.name} of {what} over hccl")


def _check_places(rule: Rule, tensors: List[Any]) -> None:
    on_host = [tensor for tensor in tensors if not _is_on_device(tensor)]
    if not on_host:
        return
    message = "Tensors must be NPU and dense"
    if len(on_host) == len(tensors):
        message = "No backend type associated with device type cpu"
    _refuse(rule, message, "a tensor on the host")


def _has_layout(tensor: Any, layout: str) -> bool:
    if layout == "any":
        return True
    if tensor.layout is not torch.strided:
        return False
    if layout == "dense":
        return torch.ops.aten.is_non_overlapping_and_dense(tensor)
    if tensor.is_contiguous():
        return True
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.dim() in formats and tensor.is_contiguous(memory_format=formats[tensor.dim()])


def _check_layouts(rule: Rule, args: Sequence[Any]) -> None:
    for layout, arg in zip(rule.layouts, args):
        if not all(_has_layout(tensor, layout) for tensor in flat(arg)):
            needed = "contiguous" if layout == "contiguous" else "non-overlapping and dense"
            _refuse(rule, f"Tensors must be {needed}", f"a tensor that is not {needed}")
            return


def _check_dtype(rule: Rule, dtype: torch.dtype) -> None:
    short = _short(dtype)
    name = _RULES["dtypes"].get(short)
    if name is None:
        _refuse(rule, "Unsupported data type for HCCL process group", short)
    elif rule.reduces and short not in _REDUCED and short not in rule.casts:
        _refuse(rule, f"HCCL {rule.name}: Unsupported data type {name}", short)


def check_operation(rule: Rule, operation: Any, dtype: torch.dtype) -> None:
    """Refuse what HCCL cannot do with tensors of this dtype."""
    name, short = reductions.name_of(operation), _short(dtype)
    if name in _RULES["operations_not_supported"]:
        _refuse(rule, f"Cannot use ReduceOp.{name} with HCCL", f"ReduceOp.{name}")
    elif name == "PREMUL_SUM" and not dtype.is_floating_point:
        message = "PreMulSum Data type must be half, float, bfloat16 or double"
        _refuse(rule, message, f"ReduceOp.{name} and {short}")
    elif (name == "PRODUCT" and short in _NOT_MULTIPLIED) or short in _NOT_REDUCED:
        hccl_name = {"PRODUCT": "prod"}.get(name, name.lower())
        message = f"HCCL {rule.name}: the device does not support the data type[{short}]"
        _refuse(rule, f"{message} for Op[{hccl_name}]", f"ReduceOp.{name} and {short}")


def check_tensors(rule: Rule, tensors: List[Any], operation: Any) -> None:
    """Refuse tensors by their place and dtype."""
    _check_places(rule, tensors)
    _check_dtype(rule, tensors[0].dtype)
    if rule.reduces:
        check_operation(rule, operation, tensors[0].dtype)


def _check(rule: Rule, args: Sequence[Any]) -> None:
    tensors = flat(args)
    if not tensors:
        return
    _check_places(rule, tensors)
    _check_layouts(rule, args)
    check_tensors(rule, tensors, reductions.operation_in(args))


def as_gloo_moves(value: Any) -> Any:
    """The same memory in a dtype that gloo knows."""
    if isinstance(value, Tensor):
        dtype = MOVED_AS.get(value.dtype)
        return value if dtype is None or not value.is_contiguous() else value.view(dtype)
    if isinstance(value, (list, tuple)):
        return [as_gloo_moves(item) for item in value]
    return value


def _checked(rule: Rule, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not communicates_by_hccl(self):
            return method(self, *args, **kwargs)
        if SETTINGS.checks:
            with without_functions():
                _check(rule, args)
        if rule.name == "gather" and flat(args[:1]):
            warnings.warn(_INSTEAD_OF_GATHER, stacklevel=2)
        way = uneven.way_of(rule.name, args)
        if way is not None:
            return way(self, *args)
        if rule.reduces:
            how = reductions.plan(args)
            if not how.is_plain:
                return reductions.carry_out(method, self, args, kwargs, how)
            return method(self, *args, **kwargs)
        return method(self, *[as_gloo_moves(arg) for arg in args], **kwargs)

    return run


def _not_supported(name: str, message: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if communicates_by_hccl(self):
            refuse.refuse(RuntimeError, message, f"{name} over hccl")
        return method(self, *args, **kwargs)

    return run


def _object_device(choose: Callable[..., Any]) -> Callable[..., Any]:
    """Objects travel as tensors on the device, since hccl takes no others."""

    @functools.wraps(choose)
    def chosen(group: Any = None) -> Any:
        if communicates_by_hccl(group or dist.distributed_c10d._get_default_group()):
            return torch.device("npu", place.current_index())
        return choose(group)

    return chosen


def install() -> None:
    """Check every collective of the process groups in Python, and do it as HCCL does."""
    groups: Any = dist.ProcessGroup
    for name, row in _RULES["collectives"].items():
        for method in (name, row.get("newer_name", name)):
            # Newer methods may be others by a second name; none is to be wrapped twice.
            if hasattr(groups, method) and not hasattr(getattr(groups, method), "__wrapped__"):
                setattr(groups, method, _checked(rule(name), getattr(groups, method)))
    for name, message in _RULES["not_supported"].items():
        if hasattr(groups, name) and SETTINGS.checks:
            setattr(groups, name, _not_supported(name, message, getattr(groups, name)))
    module: Any = dist.distributed_c10d
    module._get_object_coll_device = _object_device(module._get_object_coll_device)
