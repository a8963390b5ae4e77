"""Moving tensors between the host and the devices: `to`, `cpu`, `npu`, `copy_`, and `data`.

`Tensor.to` is replaced for all tensors, since a tensor on the host may be moved to a device; calls
without a device go straight to torch's own."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch

from torch_npu._sim import card, memory_formats, place, refuse
from torch_npu._sim import tensor as device_tensor
from torch_npu._sim.place import SETTINGS, WRAPPED
from torch_npu._sim.record import RECORD
from torch_npu._sim.tensor import NPUTensor, Parameter, Tensor, tag, without_functions

_torch_to = Tensor.to
_torch_copy = Tensor.copy_
_torch_data: Any = Tensor.data
_HOST = -1
NOTED = "_npu_class"
"""Where a tensor whose class we must not change records the class of its data."""


class _Target(NamedTuple):
    """What a call of `to` asks for."""

    place: Optional[int]
    """A device, _HOST, or None if no device is named."""
    options: Dict[str, Any]


def _parse(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> _Target:
    options = dict(kwargs)
    names = ("non_blocking", "copy")
    device: Any = options.pop("device", None)
    other = options.pop("other", None)
    if args:
        first, rest = args[0], args[1:]
        if isinstance(first, Tensor):
            other = first
        elif isinstance(first, torch.dtype):
            options["dtype"] = first
        else:
            device, names = first, ("dtype", "non_blocking", "copy")
        options.update(zip(names, rest))
    if other is not None:
        options["dtype"] = other.dtype
        index = device_tensor.index_of(other)
        return _Target(_HOST if index is None else index, options)
    if options.get("dtype", torch.float32) is None:
        del options["dtype"]
    if device is None:
        return _Target(None, options)
    index = place.index_of(device)
    if index is None:
        device = torch.device(device)
        if device.type != "cpu":
            options["device"] = device
            return _Target(None, options)
    return _Target(_HOST if index is None else index, options)


def _names_no_device(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
    if kwargs.get("device") is not None or "other" in kwargs:
        return False
    return not args or isinstance(args[0], torch.dtype) or args[0] is None


def _is_plain_call(self: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
    """Whether a tensor is on the host, or of an unknown class, and stays where it is."""
    return type(self) not in (Tensor, Parameter) or _names_no_device(args, kwargs)


def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """`Tensor.to` for tensors of the host and of the devices."""
    here = device_tensor.index_of(self)
    if here is None and _is_plain_call(self, args, kwargs):
        return _torch_to(self, *args, **kwargs)
    target = _parse(args, kwargs)
    options = target.options
    there = here if target.place is None else target.place
    there = None if there == _HOST else there
    with without_functions():
        if target.place is None and _loses_double(self, options):
            refuse.double_replaced()
            options["dtype"] = torch.float32
        asked = options.get("memory_format")
        if asked is not None and SETTINGS.checks and memory_formats.is_other(asked):
            _check_format(self, here, there, options)
        if here != there:
            return _transfer(self, here, there, options)
        if there is None and target.place is not None:
            options["device"] = torch.device("cpu")
        result = _torch_to(self, **options)
        return result if there is None or result is self else tag(result, type(self))


def _loses_double(self: Any, options: Dict[str, Any]) -> bool:
    """A cast to float64 that names no device: the plug-in casts to float32 instead."""
    asked = options.get("dtype") is torch.float64 and self.dtype is not torch.float64
    return asked and SETTINGS.strict


def _check_format(
    self: Any, here: Optional[int], there: Optional[int], options: Dict[str, Any]
) -> None:
    changes = here != there or _torch_to(self, **options) is not self
    arrives = here is None and there is not None
    memory_formats.check_to(changes, arrives, options["memory_format"])


def _transfer(self: Any, here: Optional[int], there: Optional[int], options: Dict[str, Any]) -> Any:
    """Copy to another place; never an alias, even though both are in the host's memory."""
    options["device"] = torch.device("cpu") if there is None else _shown_device(there)
    options["copy"] = True
    nbytes = self.numel() * self.element_size() if self.layout is torch.strided else 0
    _note(here, there, nbytes)
    if there is None:
        return device_tensor.untag(_torch_to(self, **options))
    place.initialize()
    if SETTINGS.checks:
        device_tensor.memory.expect(there, nbytes)
    return tag(_torch_to(self, **options), device_tensor.CLASSES[there])


def _shown_device(index: int) -> torch.device:
    """The device that C++ is to copy to."""
    return torch.device("npu", index) if WRAPPED else place.host_device(index)


def _note(here: Optional[int], there: Optional[int], nbytes: int) -> None:
    if SETTINGS.checks:
        kind = "copy-to-host" if there is None else "copy-to-device"
        RECORD.event(
            kind if here is None or there is None else "copy-between-devices", "to", nbytes
        )


def cpu(self: Any, memory_format: Any = torch.preserve_format) -> Any:
    """`Tensor.cpu` of a device tensor."""
    return to(self, "cpu", memory_format=memory_format)


def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """`Tensor.copy_`, which may cross between places."""
    with without_functions():
        here, there = device_tensor.index_of(src), device_tensor.index_of(self)
        if here != there and isinstance(src, Tensor):
            _note(here, there, src.numel() * src.element_size())
        return _torch_copy(self, src, non_blocking)


def _get_data(self: Any) -> Any:
    cls = type(self) if type(self) in device_tensor.TAGGED else self.__dict__.get(NOTED)
    if cls is not None:
        with without_functions():
            return tag(_torch_data.__get__(self), cls)
    return _torch_data.__get__(self)


def _set_data(self: Any, value: Any) -> None:
    """Set the data and take the place of the new data; `Module.to` relies on it."""
    if WRAPPED and (type(self) in device_tensor.TAGGED or type(value) in device_tensor.TAGGED):
        card.take_data(self, value)
        return
    with without_functions():
        _torch_data.__set__(self, value)
        there = type(value) if type(value) in device_tensor.TAGGED else None
        if there is None:
            device_tensor.untag(self).__dict__.pop(NOTED, None)
        elif type(self) in (Tensor, Parameter) or type(self) in device_tensor.TAGGED:
            tag(device_tensor.untag(self), there)
        else:
            self.__dict__[NOTED] = there


def install() -> None:
    """Replace torch's own."""
    Tensor.to = to
    Tensor.data = property(_get_data, _set_data)
    NPUTensor.cpu = cpu
    NPUTensor.copy_ = copy_
    device_tensor.HANDLERS[_torch_to] = lambda func, args, kwargs: to(*args, **kwargs)
    device_tensor.HANDLERS[Tensor.to] = lambda func, args, kwargs: to(*args, **kwargs)
    device_tensor.HANDLERS[_torch_copy] = lambda func, args, kwargs: copy_(*args, **kwargs)
    device_tensor.HANDLERS[Tensor.double] = lambda func, args, kwargs: to(
        *args, dtype=torch.float64, **kwargs
    )
    device_tensor.HANDLERS[Tensor.cpu] = lambda func, args, kwargs: cpu(*args, **kwargs)
