"""Methods and attributes of device tensors, and functions that need special handling.

What only reads a tensor's metadata is passed through unchecked; what brings a value to the host is
counted as a wait; what needs host memory is refused."""

import copy
import functools
from typing import Any, Dict, Tuple

import torch

from torch_npu._sim import card, refuse, special_names
from torch_npu._sim import tensor as device_tensor
from torch_npu._sim.moves import cpu, to
from torch_npu._sim.place import SETTINGS, WRAPPED
from torch_npu._sim.record import RECORD
from torch_npu._sim.tensor import (
    HANDLERS,
    MAY_MIX,
    TAKE_LENGTHS,
    WAITS,
    NPUTensor,
    Tensor,
    tag,
    without_functions,
)

TYPE_NAMES = {
    torch.float32: "FloatTensor",
    torch.float64: "DoubleTensor",
    torch.float16: "HalfTensor",
    torch.bfloat16: "BFloat16Tensor",
    torch.uint8: "ByteTensor",
    torch.int8: "CharTensor",
    torch.int16: "ShortTensor",
    torch.int32: "IntTensor",
    torch.int64: "LongTensor",
    torch.bool: "BoolTensor",
}
_DTYPES = {name: dtype for dtype, name in TYPE_NAMES.items()}


def _read(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    with without_functions():
        return func(*args, **kwargs)


def _read_within(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    with without_functions():
        return func(*(card.inner_of(arg) for arg in args), **kwargs)


def _grad(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    with without_functions():
        grad = func(*args)
        return grad if grad is None else tag(grad, type(args[0]))


def _set_grad(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    self, grad = args
    is_checked = grad is not None and SETTINGS.checks and type(self) in device_tensor.TAGGED
    if is_checked and device_tensor.is_on_host(grad):
        refuse.refuse(
            RuntimeError,
            "assigned grad has data located on a different device",
            "a gradient on the host for a tensor on npu",
        )
    with without_functions():
        func(self, grad)


def _getitem(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    self, index = args
    if SETTINGS.checks:
        for part in index if type(index) is tuple else (index,):
            if isinstance(part, Tensor) and part.dtype in (torch.bool, torch.uint8):
                RECORD.event("wait", "index by a mask")
    if type(self) not in device_tensor.TAGGED:
        with without_functions():
            refuse.mixed_devices("cpu", "npu:0", func)
            return func(*args)
    with without_functions():
        if not SETTINGS.checks:
            return tag(func(*args), type(self))
        return device_tensor.compute(type(self), func, (self, index), {})


def _shape_of_other(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    if type(args[0]) in device_tensor.TAGGED:
        return tag(_read(func, args, kwargs), type(args[0]))
    return _read(func, args, kwargs)


def _pack(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    # The sizes of a packed batch stay on the host.
    data, sizes = _read(func, args, kwargs)
    return tag(data, device_tensor.find_class(args)), sizes


def _waiting(name: str) -> Any:
    function = getattr(Tensor, name)

    def method(self: Any, *args: Any) -> Any:
        if SETTINGS.checks and type(self) in device_tensor.TAGGED:
            RECORD.event("wait", name.strip("_"))
        with without_functions():
            return function(self, *args)

    method.__name__ = name
    HANDLERS[function] = lambda func, args, kwargs: method(*args, **kwargs)
    return method


class _Methods:
    """Copied onto NPUTensor, and installed under torch.Tensor's own names."""

    def numpy(self: Any, *, force: bool = False) -> Any:
        if not force:
            refuse.to_numpy(self.device)
        with without_functions():
            if WRAPPED:
                return cpu(self.detach()).numpy(force=force)
            return device_tensor.untag(self.detach().clone()).cpu().numpy(force=force)

    def __array__(self: Any, dtype: Any = None, copy: Any = None) -> Any:
        refuse.to_numpy(self.device)
        array = cpu(self).numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __repr__(self: Any, *, tensor_contents: Any = None) -> str:
        with without_functions():
            if WRAPPED:
                text = _wrapped_text(self, tensor_contents)
            else:
                text = torch._tensor_str._str(self, tensor_contents=tensor_contents)
        if text.startswith("Parameter("):
            text = text[len("Parameter(") : -1]
        text = "t" + text[1:] if text.startswith("Tensor(") else text
        return "Parameter containing:\n" + text if getattr(self, "_is_param", False) else text

    def __format__(self: Any, spec: str) -> str:
        # Torch's own only formats values of exactly its class.
        if self.dim() == 0:
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    def __deepcopy__(self: Any, memo: Dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        cls = type(self)
        if WRAPPED:
            memo[id(self)] = twin = _wrapped_twin(self, memo)
            return twin
        with without_functions():
            device_tensor.untag(self)
            try:
                twin = tag(copy.deepcopy(self, memo), cls)
            finally:
                tag(self, cls)
        memo[id(self)] = twin
        return twin

    def __iter__(self: Any) -> Any:
        if self.dim() == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def get_device(self: Any) -> int:
        return type(self).npu_index

    def pin_memory(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"cannot pin '{type_of(self)}' only dense CPU tensors can be pinned")

    def is_pinned(self: Any, *args: Any, **kwargs: Any) -> bool:
        return False

    def type(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        return type_of(self, dtype, non_blocking)

    def tolist(self: Any) -> Any:
        if SETTINGS.checks:
            RECORD.event("wait", "tolist")
        with without_functions():
            return Tensor.tolist(card.inner_of(self.detach()) if WRAPPED else self)

    def backward(
        self: Any,
        gradient: Any = None,
        retain_graph: Any = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def record_stream(self: Any, stream: Any) -> None:
        """Work is done in order; there is nothing to wait for."""

    def register_hook(self: Any, hook: Any) -> Any:
        cls = type(self)

        def with_device(grad: Any) -> Any:
            return hook(tag(grad, cls))

        with without_functions():
            return Tensor.register_hook(self, with_device)

    def new_tensor(
        self: Any, data: Any, *, dtype: Any = None, device: Any = None, **kwargs: Any
    ) -> Any:
        with without_functions():
            made = Tensor.new_tensor(self, data, dtype=dtype, **kwargs)
        return to(tag(made, type(self)), device) if device is not None else tag(made, type(self))


def _wrapped_twin(self: Any, memo: Dict[int, Any]) -> Any:
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user support the deepcopy protocol"
        )
    with without_functions():
        twin = self.detach().clone()
        is_parameter = getattr(self, "_is_param", False)
        twin = torch.nn.Parameter(twin, False) if is_parameter else twin
        twin.requires_grad_(self.requires_grad)
        twin.grad = copy.deepcopy(self.grad, memo)
    for name, value in self.__dict__.items():
        if name not in ("_is_param", "_inner"):
            setattr(twin, name, copy.deepcopy(value, memo))
    return twin


def _wrapped_text(self: Any, contents: Any) -> str:
    text = torch._tensor_str._str(cpu(self.detach()), tensor_contents=contents)
    notes = f", device='{self.device}'"
    if self.grad_fn is not None:
        notes += f", grad_fn=<{type(self.grad_fn).__name__}>"
    elif self.requires_grad:
        notes += ", requires_grad=True"
    return f"{text[:-1]}{notes})"


def type_of(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """`Tensor.type` of a device tensor: its type's name, or a cast to another type."""
    if dtype is None:
        return "torch.npu." + TYPE_NAMES.get(self.dtype, "Tensor")
    if isinstance(dtype, torch.dtype):
        return to(self, dtype, non_blocking)
    name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
    module = name.rpartition(".")[0]
    there = self.device if ".npu" in module or module == "npu" else "cpu"
    return to(self, there, dtype_named(name), non_blocking)


def dtype_named(name: str) -> torch.dtype:
    """The dtype of `FloatTensor`, `torch.npu.HalfTensor` and the like."""
    return _DTYPES[name.rpartition(".")[2]]


def _flag(value: bool) -> Any:
    return property(lambda self: value)


def _install_readers() -> None:
    for name in special_names.READ_ATTRIBUTES:
        if hasattr(Tensor, name) and hasattr(getattr(Tensor, name), "__get__"):
            HANDLERS[getattr(Tensor, name).__get__] = _read
    for _, function in _existing(special_names.READ_METHODS, (Tensor, torch)):
        HANDLERS[function] = _read
    if WRAPPED:
        for name in special_names.OF_THE_STORAGE:
            HANDLERS[getattr(Tensor, name)] = _read_within


def _quick_attribute(name: str) -> Any:
    """An attribute that is read without the detour over `__torch_function__`, which costs 2 us."""
    descriptor: Any = getattr(Tensor, name)
    read = descriptor.__get__

    def get(self: Any) -> Any:
        with without_functions():
            return read(self)

    return property(get, descriptor.__set__, descriptor.__delete__)


def _quick_method(name: str) -> Any:
    function: Any = getattr(Tensor, name)

    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with without_functions():
            return function(self, *args, **kwargs)

    return method


def _quick_grad() -> Any:
    descriptor: Any = Tensor.grad
    read, write = descriptor.__get__, descriptor.__set__

    def get(self: Any) -> Any:
        with without_functions():
            grad = read(self)
            kind = type(self)
            return grad if grad is None or type(grad) is kind else tag(grad, kind)

    def put(self: Any, grad: Any) -> None:
        _set_grad(write, (self, grad), {})

    return property(get, put, descriptor.__delete__)


def _install_quick_ones() -> None:
    """What optimizers and models ask for all the time."""
    for name in special_names.QUICK_ATTRIBUTES:
        setattr(NPUTensor, name, _quick_attribute(name))
    for name in special_names.QUICK_METHODS:
        setattr(NPUTensor, name, _quick_method(name))
    NPUTensor.grad = _quick_grad()


def _existing(names: Any, owners: Any) -> Any:
    for name in names:
        for owner in owners:
            if hasattr(owner, name):
                yield name, getattr(owner, name)


def install() -> None:
    """Fill the tables and give NPUTensor its methods."""
    _install_readers()
    grad: Any = Tensor.grad
    HANDLERS[grad.__get__] = _grad
    HANDLERS[grad.__set__] = _set_grad
    HANDLERS[Tensor.__getitem__] = _getitem
    HANDLERS[torch._VF._pack_padded_sequence] = _pack
    # Looked into by `autograd`, as a pass and not as a function.
    HANDLERS[torch.autograd.backward] = HANDLERS[torch.autograd.grad] = _read
    for name in special_names.SHAPE_OF_OTHER:
        HANDLERS[getattr(Tensor, name)] = _shape_of_other
    owners = (Tensor, torch, torch._VF, torch.nn.functional)
    MAY_MIX.update(function for _, function in _existing(special_names.MAY_MIX_NAMES, owners))
    TAKE_LENGTHS.update(function for _, function in _existing(special_names.LENGTH_NAMES, owners))
    for name, function in _existing(special_names.WAIT_METHODS, (Tensor, torch)):
        WAITS[function] = name
    for name in ("item", "__bool__", "__int__", "__float__", "__index__", "__complex__"):
        setattr(NPUTensor, name, _waiting(name))
    for name, member in vars(_Methods).items():
        if callable(member):
            setattr(NPUTensor, name, member)
            HANDLERS.setdefault(getattr(Tensor, name, None), _through(member))
    if not WRAPPED:
        _install_quick_ones()
    NPUTensor.is_cpu = _flag(False)
    NPUTensor.is_cuda = _flag(False)
    NPUTensor.is_npu = _flag(True)


def _through(member: Any) -> Any:
    return lambda func, args, kwargs: member(*args, **kwargs)
