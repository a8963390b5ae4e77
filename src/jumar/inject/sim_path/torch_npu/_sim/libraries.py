"""Kernels that a script registers for NPUs through `torch.library`.

Torch looks for the kernel of a CPU tensor, which a device tensor is here; so what is registered for the
CPU is one function, which chooses between the script's kernels by the class of the tensors. It is
registered once, since torch warns when a kernel is replaced."""

from typing import Any, Callable, Dict

import torch

from torch_npu._sim.tensor import find_class

_HOST_KEYS = {"PrivateUse1": "CPU", "AutogradPrivateUse1": "AutogradCPU"}
_impl = torch.library.Library.impl
_Kernel = Callable[..., Any]
_kernels: Dict[str, Dict[str, _Kernel]] = {}
"""By torch's name for a registration: the kernels for npu and for cpu."""


def _chooser(name: str, kernels: Dict[str, _Kernel]) -> _Kernel:
    def choose(*args: Any, **kwargs: Any) -> Any:
        on_device = find_class(args) or find_class(tuple(kwargs.values()))
        kernel = kernels.get("npu") if on_device else None
        kernel = kernel or kernels.get("cpu")
        if kernel is None:
            raise NotImplementedError(
                f"Could not run '{name}' with arguments from the 'CPU' backend."
            )
        return kernel(*args, **kwargs)

    return choose


def _impl_for_both(
    self: Any, op_name: Any, fn: _Kernel, dispatch_key: str = "", **options: Any
) -> None:
    key = dispatch_key or self.dispatch_key
    host_key = _HOST_KEYS.get(key, key)
    if host_key not in _HOST_KEYS.values() or fn is torch.library.fallthrough_kernel:
        _impl(self, op_name, fn, dispatch_key, **options)
        return
    name = str(getattr(op_name, "_name", op_name)).split("::")[-1].replace(".default", "")
    place = f"{self.ns}/{name}/{host_key}"
    if place not in torch.library._impls:
        # New, or its library is gone, and its kernels with it.
        _kernels[place] = {}
    kernels = _kernels.setdefault(place, {})
    side = "npu" if key in _HOST_KEYS else "cpu"
    if not kernels or side in kernels:
        _impl(self, op_name, _chooser(f"{self.ns}::{name}", kernels), host_key, **options)
    kernels[side] = fn


def install() -> None:
    """Replace torch's own with it."""
    torch.library.Library.impl = _impl_for_both
