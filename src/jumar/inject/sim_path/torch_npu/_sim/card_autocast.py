"""Autocast for device tensors on a CUDA card, with autocast's own lists for CUDA.

On the CPU the host's own autocast does this; tensors that wrap others have their own dispatch key, for
which C++ has no kernels. As there, a weight is cast once per region, so that its gradients are summed
in the low precision and cast back once."""

import functools
import weakref
from typing import Any, Callable, Dict, Tuple

import torch

from torch_npu._sim import place
from torch_npu._sim.kernels import fall_through, register
from torch_npu._sim.tensor import Tensor

_to_copy = torch.ops.aten._to_copy.default
_KEY = "AutocastPrivateUse1"
_LOW = (torch.float16, torch.bfloat16)
_without_autocast = functools.partial(
    torch._C._ExcludeDispatchKeyGuard,
    torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1),
)
_cast_weights: Dict[int, Tuple[Any, Tensor]] = {}


def _is_castable(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64


def cast(value: Any, dtype: torch.dtype) -> Any:
    """Floating tensors in another dtype; weights only once in a region of autocast."""
    if isinstance(value, (list, tuple)):
        return [cast(item, dtype) for item in value]
    if not _is_castable(value) or value.dtype is dtype:
        return value
    is_weight = value.dtype is torch.float32 and value.requires_grad and value.is_leaf
    if not (is_weight and dtype in _LOW and torch.is_autocast_cache_enabled()):
        return _to_copy(value, dtype=dtype)
    known = _cast_weights.get(id(value))
    if known is not None and known[0]() is value:
        return known[1]
    made = _to_copy(value, dtype=dtype)
    _cast_weights[id(value)] = (weakref.ref(value), made)
    return made


def _cast_call(
    operator: Any, dtype: torch.dtype, args: Tuple[Any, ...], kwargs: Dict[str, Any]
) -> Any:
    with _without_autocast():
        values = [cast(arg, dtype) for arg in args]
        return operator(*values, **{name: cast(value, dtype) for name, value in kwargs.items()})


def _in_low_precision(operator: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return _cast_call(operator, torch.get_autocast_dtype("npu"), args, kwargs)

    return kernel


def _in_float32(operator: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return _cast_call(operator, torch.float32, args, kwargs)

    return kernel


def _with_float32_result(operator: Any) -> Callable[..., Any]:
    names = [argument.name for argument in operator._schema.arguments]
    position = names.index("dtype")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        given = args[position] if len(args) > position else kwargs.get("dtype")
        first = args[0]
        if given is None and _is_castable(first) and first.dtype in _LOW:
            args = args[:position]
            kwargs = {**kwargs, "dtype": torch.float32}
        with _without_autocast():
            return operator(*args, **kwargs)

    return kernel


def _dtypes(values: Any) -> Any:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _dtypes(value)
        elif _is_castable(value):
            yield value.dtype


def _in_the_widest(operator: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        given = set(_dtypes((*args, *kwargs.values())))
        widest = torch.float32 if torch.float32 in given else torch.get_autocast_dtype("npu")
        return _cast_call(operator, widest if given else torch.float32, args, kwargs)

    return kernel


def _clearing(clear: Callable[[], None]) -> Callable[[], None]:
    @functools.wraps(clear)
    def clear_both() -> None:
        _cast_weights.clear()
        clear()

    return clear_both


def install() -> None:
    """Register the kernels; other operators fall through to autograd."""
    fall_through(_KEY)
    table = place.SETTINGS.autocast
    for names, make in (
        (table.lower, _in_low_precision),
        (table.float32 + table.float32_on_cuda, _in_float32),
        (table.float32_result, _with_float32_result),
        (table.widest, _in_the_widest),
    ):
        for name in names:
            # A few differ between releases of torch.
            if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "AutocastCUDA"):
                packet, _, overload = name.partition(".")
                operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
                register(name, make(operator), _KEY)
    torch.clear_autocast_cache = _clearing(torch.clear_autocast_cache)
