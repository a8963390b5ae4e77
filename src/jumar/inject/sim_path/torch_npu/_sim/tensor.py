"""Tensors on a simulated NPU.

A device tensor is an ordinary host tensor whose Python class says which device holds it: one class
per device. Torch calls `__torch_function__` for every function that gets one; it checks, runs the
function unchanged and gives the results the class. Autograd, C++ code and DDP see an ordinary CPU
tensor, so numbers are exactly those of the CPU and a backward pass costs nothing extra.

What C++ creates without Python seeing it (gradients inside a backward pass) has no such class until
it reaches Python; `autograd` does that, and `memory` knows the device of every storage."""

import functools
import threading
import types
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Set, Tuple

import torch

from torch_npu._sim import card, memory, memory_formats, refuse
from torch_npu._sim.place import SETTINGS, WRAPPED
from torch_npu._sim.record import RECORD
from torch_npu._sim.watch import WATCH

Tensor = torch.Tensor
Parameter = torch.nn.Parameter
without_functions = torch._C.DisableTorchFunctionSubclass
_graph_task = torch._C._current_graph_task_id
_transform_level = torch._C._functorch.maybe_current_level
_HostGenerator = torch._C.Generator
_CHECKS = SETTINGS.checks

TAGGED: Set[type] = set()
"""The classes of device tensors."""
PLAIN: FrozenSet[type] = frozenset((Tensor, Parameter))
_VALUES = frozenset(
    (
        *(int, bool, str, type(None), type(Ellipsis)),
        *(torch.dtype, torch.device, torch.layout, torch.memory_format),
    )
)
_LISTS = frozenset((list, tuple, torch.Size))
_INDEXING = frozenset((Tensor.__getitem__, Tensor.__setitem__))
# The operators on lists of tensors, as optimizers use them; all lists have the sizes of the first.
_ON_LISTS = frozenset(getattr(torch, name) for name in dir(torch) if name.startswith("_foreach_"))
_SPECIAL = _ON_LISTS | _INDEXING
_shape_of: Any = Tensor.shape.__get__
_dtype_of: Any = Tensor.dtype.__get__
_stride_of: Any = Tensor.stride
# Functions skip work for these.
_SPECIAL_NUMBERS = frozenset((0.0, 1.0))

Handler = Callable[[Any, Tuple[Any, ...], Dict[str, Any]], Any]
HANDLERS: Dict[Any, Handler] = {}
"""Functions with special handling; filled by `methods`."""
MAY_MIX: Set[Any] = set()
"""Functions that accept tensors of the host and of a device together."""
TAKE_LENGTHS: Set[Any] = set()
"""Functions that take the lengths of sequences on the host."""
WAITS: Dict[Any, str] = {}
"""Functions whose result depends on data, so that the host waits for the device."""


class _Running(threading.local):
    cls: Any = None


RUNNING = _Running()
"""The device of the function that this thread runs, or ran last."""


class NPUTensor(Tensor):
    """The class of all device tensors, with one subclass per device."""

    npu_index = -1

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Any,
        args: Tuple[Any, ...] = (),
        kwargs: Optional[Dict[str, Any]] = None,
    ) -> Any:
        handler = HANDLERS.get(func)
        if handler is not None:
            return handler(func, args, kwargs or {})
        return compute(cls, func, args, kwargs or {})


def _device_class(index: int) -> type:
    device = torch.device("npu", index)
    members: Dict[str, Any] = {
        "npu_index": index,
        "device": property(lambda self: device),
        "__module__": "torch",
    }
    if WRAPPED:
        members["__torch_dispatch__"] = classmethod(card.dispatch)
    return type("Tensor", (NPUTensor,), members)


CLASSES: List[type] = []


def make_classes() -> None:
    """Create the classes; `npu` must already be a device type of torch."""
    CLASSES.extend(_device_class(index) for index in range(SETTINGS.devices))
    TAGGED.update(CLASSES)
    if WRAPPED:
        card.install(CLASSES)


def index_of(tensor: Any) -> Optional[int]:
    """The device that holds `tensor`, None for the host."""
    kind = type(tensor)
    return kind.npu_index if kind in TAGGED else None


def tag(value: Any, cls: Any) -> Any:
    """Give plain tensors in `value` the class of their device; others are not changed."""
    kind = type(value)
    if kind is cls:
        return value
    if WRAPPED:
        return _tag_wrapped(value, cls)
    if kind is Tensor or kind is Parameter:
        value.__class__ = cls
        if kind is Parameter:
            value._is_param = True
        if _CHECKS:
            memory.hold(value, cls.npu_index)
    elif isinstance(value, (tuple, list)):
        for item in value:
            if type(item) is not cls:
                tag(item, cls)
    return value


def _tag_wrapped(value: Any, cls: Any) -> Any:
    # `card` has given device tensors their class; what has none is the host's.
    if type(value) in TAGGED:
        value.__class__ = cls
        if _CHECKS:
            memory.move(value, cls.npu_index)
    return value


def is_on_host(value: Any) -> bool:
    """Whether it is a tensor of the host with dimensions, and not one of a device that lost its class."""
    return type(value) in PLAIN and value.dim() > 0 and memory.holder(value) < 0


def untag(tensor: Any) -> Any:
    """Give a device tensor the class that it has on the host."""
    if type(tensor) in TAGGED:
        tensor.__class__ = Parameter if getattr(tensor, "_is_param", False) else Tensor
    return tensor


def find_class(args: Any) -> Any:
    """The class of the first device tensor among `args`; None if there is none."""
    for arg in args:
        kind = type(arg)
        if kind in TAGGED:
            return kind
        if kind is list or kind is tuple:
            found = find_class(arg)
            if found is not None:
                return found
    return None


def _is_length(func: Any, tensor: Any) -> bool:
    return func in TAKE_LENGTHS and tensor.dtype in (torch.int32, torch.int64)


def _check_strangers(cls: Any, func: Any, strangers: List[Any]) -> None:
    """Refuse tensors of another device; a plain tensor on a device's storage only lost its class."""
    # Inside a backward pass or a transform of torch.func C++ hands over plain tensors of the device.
    from_inside = _graph_task() != -1 or _transform_level() is not None
    for tensor in strangers:
        kind = type(tensor)
        if kind in PLAIN:
            if from_inside or tensor.dim() == 0 or _is_length(func, tensor):
                continue
            held_by = memory.holder(tensor)
            if held_by >= 0:
                tag(tensor, CLASSES[held_by])
                kind = CLASSES[held_by]
        elif tensor.dim() == 0:
            continue
        if kind is not cls:
            other = f"npu:{kind.npu_index}" if kind in TAGGED else "cpu"
            refuse.mixed_devices(f"npu:{cls.npu_index}", other, func)
            return


def _scan(args: Any, cls: Any, call: List[Any], strangers: List[Any]) -> bool:
    """Add the signature of `args` to `call`, and tensors that are not on the device of `cls` to
    `strangers`; false if there is something whose effect is not known."""
    known = True
    for arg in args:
        kind = type(arg)
        if kind is cls or kind in PLAIN or kind in TAGGED:
            if kind is not cls:
                strangers.append(arg)
                call.append(kind)
            try:
                call += (_dtype_of(arg), _shape_of(arg), _stride_of(arg), arg.requires_grad)
            except (RuntimeError, NotImplementedError):  # sparse and nested ones have no strides
                known = False
        elif kind in _VALUES:
            call += (kind, arg)
        elif kind is float:
            call.append(arg if arg in _SPECIAL_NUMBERS else float)
        elif kind in _LISTS:
            call.append(len(arg))
            known = _scan(arg, cls, call, strangers) and known
        elif kind is slice:
            known = _scan((arg.start, arg.stop, arg.step), cls, call, strangers) and known
        else:
            known = known and kind is torch.Generator
    return known


def _signature(
    func: Any, args: Tuple[Any, ...], kwargs: Any, cls: Any, strangers: List[Any]
) -> Tuple[List[Any], bool]:
    """The signature of a call, and whether it says everything."""
    call: List[Any] = [func]
    if func in _SPECIAL:
        if func in _ON_LISTS:
            known = _scan_lists(args, cls, call, strangers)
        else:
            self, index, *rest = args
            parts = index if type(index) is tuple else (index,)
            known = _scan((self, *map(_loosened, parts), *rest), cls, call, strangers)
    else:
        if type(func) is types.FunctionType and len(args) > 2:
            # Attention written in Python asks whether its inputs are the same object.
            call += (args[0] is args[1], args[1] is args[2])
        known = _scan(args, cls, call, strangers)
    if kwargs:
        call += kwargs
        known = _scan(kwargs.values(), cls, call, strangers) and known
    return call, known


def _scan_lists(args: Any, cls: Any, call: List[Any], strangers: List[Any]) -> bool:
    known = True
    for arg in args:
        if type(arg) in _LISTS and set(map(type, arg)) == {cls}:
            call.append(len(arg))
            call.append(_dtype_of(arg[0]))
            if arg is args[0]:
                call += map(_shape_of, arg)
        else:
            known = _scan((arg,), cls, call, strangers) and known
    return known


def _loosened(part: Any) -> Any:
    """Which row is picked does not matter, and changes with every step; an int gets its kind's name.

    A slice from the start may be the whole, for which nothing is run."""
    kind = type(part)
    if kind is int:
        return "int"
    if kind is slice and part.start:
        return ("start", "stop" if part.stop is not None else None, part.step)
    return part


def compute(cls: Any, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    """Run a function on device tensors: check, run, and give the results their device."""
    RUNNING.cls = cls
    run = functools.partial(card.call, cls.npu_index, func) if WRAPPED else func
    with without_functions():
        if not _CHECKS:
            return _tag_result(run(*args, **kwargs), cls, args, kwargs)
        RECORD.calls += 1
        strangers: List[Any] = []
        call, known = _signature(func, args, kwargs, cls, strangers)
        if kwargs:
            if "memory_format" in kwargs:
                memory_formats.check_call(func, args, kwargs)
            if type(kwargs.get("generator")) is _HostGenerator:
                refuse.host_generator()
        if strangers and func not in MAY_MIX:
            _check_strangers(cls, func, strangers)
        if func in WAITS:
            RECORD.event("wait", WAITS[func])
        result = WATCH.run(cls.npu_index, call, known, run, args, kwargs)
        if strangers and any(result is stranger for stranger in strangers):
            return result
        return _tag_result(result, cls, args, kwargs) if kwargs else tag(result, cls)


def _tag_result(result: Any, cls: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    if kwargs:
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == "cpu":
            return result
    if not _CHECKS and type(result) is Tensor and any(result is arg for arg in args):
        return result
    return tag(result, cls)
