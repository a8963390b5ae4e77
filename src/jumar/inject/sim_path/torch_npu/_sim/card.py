"""Device tensors whose data is on a CUDA card (JUMAR_SIM_BACKEND=cuda).

Torch's autograd engine follows the streams of one kind of accelerator. Once a device is called npu it
is that kind, and the engine no longer computes gradients of CUDA tensors. So C++ sees an empty tensor
on npu:0, the only device that a backend written in Python has, and every operator reaches `dispatch`,
below autograd, which runs it on the wrapped CUDA tensors.

What C++ creates without an input tensor (`zeros` in a backward formula) asks for npu:0, whatever
device is meant; it gets the device of the function or pass that is running."""

import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from torch_npu._sim import memory, place
from torch_npu._sim.place import SETTINGS

Tensor = torch.Tensor
_aten = torch.ops.aten
_Device = torch.device
_make = Tensor._make_wrapper_subclass
_graph_task = torch._C._current_graph_task_id
_set_data: Any = Tensor.data
_strided = torch.strided
_CHECKS = SETTINGS.checks
_is_on_card: Any = (Tensor.is_cuda if SETTINGS.backend == "cuda" else Tensor.is_cpu).__get__
# The results of these at these positions stay on the host.
_HOST_RESULTS = {"aten::_pack_padded_sequence": (1,)}

_TAGGED: Dict[type, int] = {}
"""The classes of the devices, and their indexes."""


class _Running(threading.local):
    index: Optional[int] = None


_running = _Running()
_passes: List[int] = []
"""The devices of the running backward passes; their threads are torch's own."""


def meant_index(index: int) -> int:
    """The device that C++ means by npu:0."""
    if index:
        return index
    if _running.index is not None:
        return _running.index
    return _passes[-1] if _passes and _graph_task() != -1 else index


def call(index: int, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function whose work is on device `index`."""
    outer = _running.index
    _running.index = index
    try:
        return function(*args, **kwargs)
    finally:
        _running.index = outer


def call_pass(index: int, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function that runs a backward pass on device `index`, in threads of torch."""
    _passes.append(index)
    try:
        return function(*args, **kwargs)
    finally:
        _passes.remove(index)


def wrap(inner: Any, cls: Any) -> Any:
    """The device tensor of class `cls` that wraps a tensor on the card, and holds its memory."""
    outer = _shown(inner, cls)
    if _CHECKS:
        memory.hold(inner, _TAGGED[cls])
    return outer


def _shown(inner: Any, cls: Any) -> Any:
    if inner.layout is _strided:
        outer = _make(
            cls,
            inner.shape,
            inner.stride(),
            inner.storage_offset(),
            None,
            inner.dtype,
            _strided,
            _Shown.device,
        )
    else:
        outer = _make(
            cls, inner.shape, dtype=inner.dtype, layout=inner.layout, device=_Shown.device
        )
    outer._inner = inner
    return outer


def inner_of(tensor: Any) -> Any:
    """The tensor on the card inside a device tensor; others unchanged."""
    return tensor._inner if type(tensor) in _TAGGED else tensor


def copy_from(source: Any, target: Any, non_blocking: bool = False) -> Any:
    """A copy that C++ makes bypassing `dispatch`, as for the list in `tensor[[0, 1]]`."""
    inner_of(target).copy_(inner_of(source), non_blocking)
    return target


def take_data(tensor: Any, value: Any) -> None:
    """`tensor.data = value`, where either is a device tensor."""
    if type(tensor) in _TAGGED and type(value) in _TAGGED:
        _set_data.__set__(tensor, value)
        tensor._inner = value._inner
        tensor.__class__ = type(value)
        return
    become(tensor, value.detach())


def become(tensor: Any, other: Any) -> None:
    """Make one tensor object stand for another's data; it stays what it is to autograd."""
    other = torch.nn.Parameter(other) if isinstance(tensor, torch.nn.Parameter) else other
    other.requires_grad_(tensor.requires_grad)
    torch.utils.swap_tensors(tensor, other)


class _Operator:
    """What must be known about an operator to run it."""

    __slots__ = ("host_results", "is_mutable", "is_view", "may_reshape", "run")

    def __init__(self, function: Any) -> None:
        schema = function._schema
        self.run: Callable[..., Any] = _QUICK.get(function, function._op)
        self.is_mutable: bool = schema.is_mutable
        written = [value for value in schema.arguments if value.is_write]
        self.may_reshape = torch.Tag.inplace_view in function.tags or (
            any(value.is_out for value in written) or schema.name.startswith("aten::resize")
        )
        self.is_view = bool(schema.returns) and all(
            value.alias_info is not None and not value.alias_info.is_write
            for value in schema.returns
        )
        self.host_results: Tuple[int, ...] = _HOST_RESULTS.get(schema.name, ())


# A shortcut to the same kernels for the most frequent operators.
_QUICK: Dict[Any, Callable[..., Any]] = {
    _aten.detach.default: Tensor.detach,
    _aten.view.default: Tensor.view,
    _aten.t.default: Tensor.t,
    _aten.transpose.int: Tensor.transpose,
    _aten.expand.default: Tensor.expand,
    _aten.unsqueeze.default: Tensor.unsqueeze,
    _aten.mm.default: torch.mm,
    _aten.bmm.default: torch.bmm,
    _aten.mul.Tensor: torch.mul,
    _aten.add.Tensor: torch.add,
    # Only this way its warning can be filtered.
    _aten._cudnn_rnn.default: torch._cudnn_rnn,
}
_operators: Dict[Any, _Operator] = {}


def dispatch(
    cls: Any, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Any] = None
) -> Any:
    """Run an operator on the wrapped tensors; its results get the class of the first."""
    operator = _operators.get(func)
    if operator is None:
        operator = _operators[func] = _Operator(func)
    outers: List[Any] = []
    inner_args = [_unwrap(arg, outers) for arg in args]
    if kwargs:
        inner_kwargs = {name: _unwrap(value, outers) for name, value in kwargs.items()}
        inner_kwargs.pop("pin_memory", None)
        result = operator.run(*inner_args, **inner_kwargs)
        device = kwargs.get("device")
        if device is not None and device.type != "npu":
            return result
    else:
        result = operator.run(*inner_args)
    if outers:
        cls = type(outers[0])
    if operator.is_mutable:
        if operator.may_reshape:
            _follow(outers)
        return _rewrap_known(result, cls, outers, inner_args)
    if operator.is_view and type(result) is Tensor:
        return _shown(result, cls)
    if operator.host_results:
        return tuple(
            part if position in operator.host_results else _rewrap(part, cls)
            for position, part in enumerate(result)
        )
    return _rewrap(result, cls)


def _unwrap(value: Any, outers: List[Any]) -> Any:
    kind = type(value)
    if kind in _TAGGED:
        outers.append(value)
        return value._inner
    if kind is list or kind is tuple:
        return [_unwrap(item, outers) for item in value]
    if kind is _Device and value.type == "npu":
        return place.host_device(value.index or 0)
    return value


def _rewrap(value: Any, cls: Any) -> Any:
    kind = type(value)
    if kind is Tensor:
        return wrap(value, cls) if _is_on_card(value) else value
    if kind is tuple or kind is list:
        return kind([_rewrap(item, cls) for item in value])
    return value


def _rewrap_known(value: Any, cls: Any, outers: List[Any], inner_args: List[Any]) -> Any:
    """Like `_rewrap`; what was passed in is returned as the same object."""
    kind = type(value)
    if kind is Tensor:
        for outer in outers:
            if outer._inner is value:
                return outer
        if any(value is arg for arg in inner_args):
            return value
        return _rewrap(value, cls)
    if kind is tuple or kind is list:
        return kind([_rewrap_known(item, cls, outers, inner_args) for item in value])
    return value


def _follow(outers: List[Any]) -> None:
    """Show the shapes of tensors that were resized or transposed in place."""
    for outer in outers:
        inner = outer._inner
        if _CHECKS:
            memory.hold(inner, _TAGGED[type(outer)])
        if outer.shape != inner.shape or outer.stride() != inner.stride():
            with torch.no_grad():
                _set_data.__set__(outer, _shown(inner, type(outer)))


class _Shown:
    """The device that C++ sees; known once a device is called npu."""

    device = _Device("cpu")


def install(classes: List[type]) -> None:
    """Take the classes of the devices; `npu` must be a device type of torch by now."""
    _TAGGED.update((cls, index) for index, cls in enumerate(classes))
    _Shown.device = _Device("npu", 0)
    # A parameter on the host cannot take data of another kind of tensor; swap it.
    torch.__future__.set_swap_module_params_on_conversion(True)
