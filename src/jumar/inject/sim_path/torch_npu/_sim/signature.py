"""The signature of a call: everything that decides which operators it runs and what memory it uses.

Calls with one signature do the same, so one that is known need not be watched again. Values of
numbers with a fraction are left out, because learning rates and the like change with every step."""

import types
from typing import Any, FrozenSet, List, Set, Tuple

import torch

Tensor = torch.Tensor
TAGGED: Set[type] = set()
"""The classes of device tensors; filled by `tensor`."""
PLAIN: FrozenSet[type] = frozenset((Tensor, torch.nn.Parameter))
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
_COMPLEX = frozenset((torch.complex32, torch.complex64, torch.complex128))
# Functions skip work for these.
_SPECIAL_NUMBERS = frozenset((0.0, 1.0))
_grad_enabled = torch.is_grad_enabled
_inference_enabled = torch.is_inference_mode_enabled
_modes = torch._C._len_torch_dispatch_stack
_transform_level = torch._C._functorch.maybe_current_level
_any_autocast = torch._C._is_any_autocast_enabled


def scan(args: Any, cls: Any, call: List[Any], strangers: List[Any]) -> bool:
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
            known = scan(arg, cls, call, strangers) and known
        elif kind is slice:
            known = scan((arg.start, arg.stop, arg.step), cls, call, strangers) and known
        else:
            known = known and kind is torch.Generator
    return known


def scan_call(
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
            known = scan((self, *map(_loosened, parts), *rest), cls, call, strangers)
    else:
        if type(func) is types.FunctionType and len(args) > 2:
            # Attention written in Python asks whether its inputs are the same object.
            call += (args[0] is args[1], args[1] is args[2])
        known = scan(args, cls, call, strangers)
    if kwargs:
        call += kwargs
        known = scan(kwargs.values(), cls, call, strangers) and known
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
            known = scan((arg,), cls, call, strangers) and known
    return known


def says_everything(call: Tuple[Any, ...]) -> bool:
    """False with complex numbers: whether a conjugation is still to be done does not show."""
    return _COMPLEX.isdisjoint(call)


def _loosened(part: Any) -> Any:
    """Which row is picked does not matter, and changes with every step; an int gets its kind's name.

    A slice from the start may be the whole, for which nothing is run."""
    kind = type(part)
    if kind is int:
        return "int"
    if kind is slice and part.start:
        return ("start", "stop" if part.stop is not None else None, part.step)
    return part


def state() -> Any:
    """What else decides it: the modes of torch; None if some are on that may do anything."""
    if _modes() or _transform_level() is not None:
        return None
    grad = _grad_enabled(), _inference_enabled()
    if not _any_autocast():
        return grad
    return (
        grad,
        torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
        torch.is_autocast_enabled("npu") and torch.get_autocast_dtype("npu"),
        torch.is_autocast_cache_enabled(),
    )
