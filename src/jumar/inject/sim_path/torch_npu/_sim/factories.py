"""Creating tensors on a device: `torch.zeros(…, device="npu:1")` and the like.

Torch's dispatcher asks the `npu` backend for empty tensors and gets host tensors with the class of
their device; the rest of each factory then runs as on the host. Factories that lose the class on the
way (they compute in C++), or to which C++ gives the wrong index, are wrapped."""

import functools
from typing import Any, Callable, Optional

import torch
import torch.utils._device
from torch.overrides import _get_current_function_mode_stack

from torch_npu._sim import card, memory, memory_formats, place, refuse
from torch_npu._sim import tensor as device_tensor
from torch_npu._sim.kernels import register
from torch_npu._sim.place import SETTINGS, WRAPPED
from torch_npu._sim.record import RECORD
from torch_npu._sim.tensor import tag
from torch_npu._sim.watch import WATCH

# These compute in C++ or let C++ choose the index of plain "npu".
_WRAPPED = [
    "tensor",
    "as_tensor",
    "asarray",
    "scalar_tensor",
    "hann_window",
    "hamming_window",
    "blackman_window",
    "bartlett_window",
    "kaiser_window",
    "normal",
    "frombuffer",
    "from_file",
    "sparse_coo_tensor",
    "sparse_csr_tensor",
    "sparse_csc_tensor",
    "sparse_bsr_tensor",
    "sparse_bsc_tensor",
    "sparse_compressed_tensor",
    "logspace",
    "tril_indices",
    "triu_indices",
    "_efficientzerotensor",
    "range",
    # For tensors on the meta device these lose the class too.
    "empty_like",
    "full_like",
    "ones_like",
    "rand_like",
    "randn_like",
    "zeros_like",
]
_WRAPPED_FFT = ("fftfreq", "rfftfreq")
_WRAPPED_METHODS = ("new_tensor",)


def _class_for(device: Any) -> Any:
    index = place.index_of(device if device is not None else torch.device("npu"))
    place.initialize()
    index = place.current_index() if index is None else index
    return device_tensor.CLASSES[card.meant_index(index) if WRAPPED else index]


def _expect(cls: Any, elements: int, dtype: Optional[torch.dtype], name: str) -> None:
    if SETTINGS.checks:
        RECORD.calls += 1
        WATCH.count_unseen(name)
        width = torch.empty(
            0, dtype=dtype or torch.get_default_dtype(), device="cpu"
        ).element_size()
        memory.expect(cls.npu_index, elements * width)


def _empty(
    size: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> Any:
    cls = _class_for(device)
    _expect(cls, torch.Size(size).numel(), dtype, "empty.memory_format")
    if SETTINGS.checks:
        memory_formats.check_empty(memory_format)
        if pin_memory:
            refuse.refuse(RuntimeError, "Only dense CPU tensors can be pinned", "pin_memory")
    made = torch.empty(
        size,
        dtype=dtype,
        layout=layout or torch.strided,
        device=place.host_device(cls.npu_index),
        memory_format=memory_format or torch.contiguous_format,
    )
    return _placed(made, cls)


def _empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Any:
    cls = _class_for(device)
    _expect(cls, torch.Size(size).numel(), dtype, "empty_strided")
    host = place.host_device(cls.npu_index)
    return _placed(torch.empty_strided(size, stride, dtype=dtype, device=host), cls)


def _placed(made: Any, cls: Any) -> Any:
    return card.wrap(made, cls) if WRAPPED else tag(made, cls)


def _on_device(factory: Any) -> Callable[..., Any]:
    """Create on the host, then move: for factories that C++ cannot run on the device."""

    @functools.wraps(factory)
    def make(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None:
            device = _default_device(factory) or _device_of_parts(factory, args, kwargs)
        index = None if device is None else place.index_of(device)
        if index is None:
            return factory(*args, **kwargs)
        place.initialize()
        cls = device_tensor.CLASSES[index]
        kwargs["device"] = place.host_device(index)
        kwargs.pop("pin_memory", None)
        with device_tensor.without_functions():
            if WRAPPED:
                return _wrapped(factory, args, kwargs, cls)
            made = factory(*args, **kwargs)
            if (args and made is args[0]) or memory.holder(made) not in (-1, index):
                made = made.clone()
            elif factory.__name__ in ("as_tensor", "asarray", "frombuffer"):
                # These may alias the host's memory, a device never does.
                made = made.clone() if made.layout is torch.strided else made
            device_tensor.untag(made)
            return tag(made, cls)

    return make


def _wrapped(factory: Any, args: Any, kwargs: Any, cls: Any) -> Any:
    requires_grad = kwargs.pop("requires_grad", False)
    made = factory(*args, **kwargs)
    inner = made.detach().clone() if any(made is arg for arg in args) else made
    return card.wrap(inner, cls).requires_grad_(requires_grad)


def _default_device(factory: Any) -> Any:
    """The device of an enclosing `with torch.device("npu")`, for the factories it applies to."""
    if not torch._C._len_torch_function_stack():
        return None
    for mode in reversed(_get_current_function_mode_stack()):
        if isinstance(mode, torch.utils._device.DeviceContext):
            applies = factory in torch.utils._device._device_constructors()
            return mode.device if applies and mode.device.type == "npu" else None
    return None


def _device_of_parts(factory: Any, args: Any, kwargs: Any) -> Optional[torch.device]:
    """Where the parts of a new tensor are: a copy or a sparse tensor is created there.

    C++ sees the device of tensors that wrap those on a card by itself."""
    if WRAPPED or not factory.__name__.startswith(("tensor", "sparse_")):
        return None
    cls = device_tensor.find_class((*args, *kwargs.values()))
    return None if cls is None else torch.device("npu", cls.npu_index)


def _wrap(name: str) -> None:
    """Replace a torch function with a device-aware factory; scripts compile it as before."""
    factory = getattr(torch, name)
    wrapped = _on_device(factory)
    operator = torch.jit._builtins._find_builtin(factory)
    if operator is not None:
        torch.jit._builtins._register_builtin(wrapped, operator)
    setattr(torch, name, wrapped)


def install() -> None:
    """Register the backend's kernels and wrap what needs it."""
    register("empty.memory_format", _empty, "PrivateUse1")
    register("empty_strided", _empty_strided, "PrivateUse1")
    if WRAPPED:
        register("_copy_from", card.copy_from, "PrivateUse1")
    torch.utils._device._device_constructors()
    for name in _WRAPPED:
        if hasattr(torch, name):
            _wrap(name)
    for name in _WRAPPED_FFT:
        setattr(torch.fft, name, _on_device(getattr(torch.fft, name)))
    for name in _WRAPPED_METHODS:
        setattr(torch.Tensor, name, _on_device(getattr(torch.Tensor, name)))
