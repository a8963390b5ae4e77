"""What changes on the CPU: pinned memory, autocast, compilation, storages.

Pinned memory is ordinary memory that is marked as pinned. Autocast for `npu` also enables autocast
where the data really is; in strict mode the operators that a real NPU computes in float32 do so
here."""

import functools
import logging
from typing import Any

import torch

from torch_npu._sim import memory, place, refuse
from torch_npu._sim import tensor as device_tensor
from torch_npu._sim.place import SETTINGS, WRAPPED
from torch_npu._sim.tensor import Tensor

logger = logging.getLogger("torch_npu")
_autocast = torch.amp.autocast_mode.autocast
_enter, _exit = _autocast.__enter__, _autocast.__exit__
_storage_resize = torch.UntypedStorage.resize_

_NO_BINARY_CROSS_ENTROPY = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. "
    "Use torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss."
)


def _enter_autocast(self: Any) -> Any:
    result = _enter(self)
    if self.device == "npu":
        host = _autocast(
            place.host_device(0).type,
            dtype=self.fast_dtype,
            enabled=self._enabled and self.fast_dtype is not torch.float32,
            cache_enabled=self._cache_enabled,
        )
        _enter(host)
        self.__dict__.setdefault("_npu_host", []).append(host)
    return result


def _exit_autocast(self: Any, *exception: Any) -> Any:
    if self.device == "npu" and self.__dict__.get("_npu_host"):
        _exit(self._npu_host.pop(), *exception)
    return _exit(self, *exception)


def _in_float32(value: Any) -> Any:
    if isinstance(value, Tensor):
        low = value.is_floating_point() and value.dtype in (torch.float16, torch.bfloat16)
        return value.float() if low else value
    return value


def _cast_first(func: Any, args: Any, kwargs: Any) -> Any:
    """A function of the float32 list, under strict autocast."""
    cls = device_tensor.find_class(args) or device_tensor.find_class(kwargs.values())
    if torch.is_autocast_enabled("npu"):
        args = tuple(_in_float32(arg) for arg in args)
        kwargs = {name: _in_float32(value) for name, value in kwargs.items()}
    return device_tensor.compute(cls, func, args, kwargs)


def _binary_cross_entropy(func: Any, args: Any, kwargs: Any) -> Any:
    if torch.is_autocast_enabled("npu") and SETTINGS.checks:
        refuse.refuse(RuntimeError, _NO_BINARY_CROSS_ENTROPY, "binary_cross_entropy in autocast")
    cls = device_tensor.find_class(args) or device_tensor.find_class(kwargs.values())
    return device_tensor.compute(cls, func, args, kwargs)


def _cast_as_the_plugin() -> None:
    """Compute in float32, and cast back, what the plug-in does and the CPU's autocast does not."""
    table = SETTINGS.autocast
    names = {name.partition(".")[0] for name in table.float32 + table.float32_result}
    for name in (*names, "cross_entropy"):
        for owner in (torch, Tensor, torch.nn.functional, torch.linalg, torch._C._nn):
            function = getattr(owner, name.replace("linalg_", ""), None)
            if function is not None:
                device_tensor.HANDLERS.setdefault(function, _cast_first)


def _install_autocast() -> None:
    if WRAPPED:
        from torch_npu._sim import card_autocast

        card_autocast.install()
    else:
        _autocast.__enter__ = _enter_autocast
        _autocast.__exit__ = _exit_autocast
    device_tensor.HANDLERS[torch.nn.functional.binary_cross_entropy] = _binary_cross_entropy
    if SETTINGS.strict and not WRAPPED:
        _cast_as_the_plugin()


def _pin_memory(self: Any, device: Any = None) -> Any:
    if getattr(self, "_npu_pinned", False):
        return self
    twin = self.detach().requires_grad_(self.requires_grad)
    twin._npu_pinned = True
    return twin


def _is_pinned(self: Any, device: Any = None) -> bool:
    return bool(getattr(self, "_npu_pinned", False))


def _resize(self: Any, size: int) -> Any:
    result = _storage_resize(self, size)
    if "_npu" in self.__dict__:
        memory.resized(self)
    return result


@functools.lru_cache(maxsize=None)
def _tell_not_compiled() -> None:
    logger.warning(
        "torch.compile: simulated NPUs run the model uncompiled; whether it compiles for an NPU was not tried"
    )


@functools.wraps(torch.compile)
def _compile(model: Any = None, **kwargs: Any) -> Any:
    _tell_not_compiled()
    if model is None:
        return _compile_nothing
    return _compile_nothing(model)


def _compile_nothing(model: Any) -> Any:
    """Modules get the wrapper of compiled ones, for `_orig_mod` and saved names."""
    return torch.compiler.disable(model) if isinstance(model, torch.nn.Module) else model


def install() -> None:
    """Replace torch's own with these."""
    _install_autocast()
    Tensor.pin_memory = _pin_memory
    Tensor.is_pinned = _is_pinned
    if SETTINGS.checks:
        torch.UntypedStorage.resize_ = _resize
    torch.compile = _compile
    torch.nn.Module.compile = lambda self, *args, **kwargs: _tell_not_compiled()
