"""Kernels that a script registers for NPUs through `torch.library`.

Torch looks for the kernel of a CPU tensor, which a device tensor is here; so a kernel for NPUs is
registered for the CPU too, together with the script's kernel for the CPU, and the class of the tensors
chooses between them."""

from typing import Any, Callable, Dict, Tuple

import torch

from torch_npu._sim.tensor import find_class

_HOST_KEYS = {"PrivateUse1": "CPU", "AutogradPrivateUse1": "AutogradCPU"}
_impl = torch.library.Library.impl
_Kernel = Callable[..., Any]
_kernels: Dict[Tuple[str, str, str], Dict[str, _Kernel]] = {}
"""By namespace, operator and key of the CPU: the kernels for npu and for cpu."""


def _chooser(name: str, kernels: Dict[str, _Kernel]) -> _Kernel:
    def choose(*args: Any, **kwargs: Any) -> Any:
        on_device = find_class(args) or find_class(tuple(kwargs.values()))
        kernel = kernels.get("npu" if on_device else "cpu")
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
    name = str(getattr(op_name, "_name", op_name)).split("::")[-1].replace(".default", "")
    place = (self.ns, name, host_key)
    if key in _HOST_KEYS or place in _kernels:
        kernels = _kernels.setdefault(place, {})
        kernels["npu" if key in _HOST_KEYS else "cpu"] = fn
        options["allow_override"] = True
        _impl(self, op_name, _chooser(f"{self.ns}::{name}", kernels), host_key, **options)
        return
    if key in _HOST_KEYS.values():
        _kernels[place] = {"cpu": fn}
    _impl(self, op_name, fn, dispatch_key, **options)


def install() -> None:
    """Replace torch's own with it."""
    torch.library.Library.impl = _impl_for_both
