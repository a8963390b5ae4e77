"""The errors of a real NPU: raised in strict mode, listed in warn mode.

Out of memory and a bad device index are errors in every mode; they are raised where they occur."""

import warnings
from typing import Any, NoReturn, Optional, Type

import torch

from torch_npu._sim.place import SETTINGS
from torch_npu._sim.record import RECORD, user_line

_ACL_NAMES = {
    "float64": "DT_DOUBLE",
    "complex32": "DT_COMPLEX32",
    "complex64": "DT_COMPLEX64",
    "complex128": "DT_COMPLEX128",
    "bfloat16": "DT_BFLOAT16",
    "uint16": "DT_UINT16",
    "uint32": "DT_UINT32",
    "uint64": "DT_UINT64",
}


def refuse(error: Type[Exception], message: str, what: str) -> None:
    """Raise in strict mode; else count it, and warn the first time at this line."""
    first = RECORD.event("refused", what)
    if SETTINGS.strict:
        raise error(message)
    if first:
        _warn(f"a real NPU would refuse this: {message}")


def _warn(message: str) -> None:
    """Warn at the line of the user's source, not at one of torch."""
    place = user_line()
    warnings.warn_explicit(message, RuntimeWarning, place.file, place.line)


def mixed_devices(first: str, second: str, function: Any) -> None:
    """Tensors of two devices met in one operation."""
    name = function_name(function)
    refuse(
        RuntimeError,
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{first} and {second}! (when checking arguments in method wrapper_NPU__{name}). "
        "Expected NPU tensor, please check whether the input tensor device is correct.",
        f"{name}: {first} with {second}",
    )


def to_numpy(device: torch.device) -> None:
    """`.numpy()` of a tensor on the device."""
    refuse(
        TypeError,
        f"can't convert {device} device type tensor to numpy. "
        "Use Tensor.cpu() to copy the tensor to host memory first.",
        f"numpy() of a tensor on {device.type}",
    )


def missing_operator(name: str) -> None:
    """An operator without a kernel: the real plug-in warns and uses the host; strict mode stops."""
    message = (
        f"CAUTION: The operator 'aten::{name}' is not currently supported on the NPU backend and "
        "will fall back to run on the CPU. This may have performance implications. "
        "(function npu_cpu_fallback)"
    )
    first = RECORD.host_operator(name)
    if SETTINGS.strict:
        raise NotImplementedError(message)
    if first:
        _warn(message)


def missing_dtype(operator: str, dtype: torch.dtype) -> None:
    """A computation in a dtype that the chip does not support."""
    short = str(dtype).replace("torch.", "")
    acl = _ACL_NAMES.get(short, short.upper())
    kernel = "".join(part.capitalize() for part in operator.split(".")[0].split("_"))
    refuse(
        RuntimeError,
        f"call aclnn{kernel} failed, detail:EZ1001: Tensor self not implemented for {acl}, "
        f"should be in dtype support list of {SETTINGS.chip.name}.",
        f"{operator} in {short}",
    )


def double_replaced() -> None:
    """A cast to float64, which the plug-in turns into one to float32."""
    RECORD.event("refused", "cast to float64")
    _warn("Device do not support double dtype now, dtype cast replace with float.")


def out_of_memory(index: int, asked: int, allocated: int, reserved: int, limit: int) -> NoReturn:
    """The device is full."""
    free = max(limit - allocated, 0)
    raise torch.OutOfMemoryError(
        f"NPU out of memory. Tried to allocate {size(asked)} (NPU {index}; {size(limit)} total "
        f"capacity; {size(allocated)} already allocated; {size(allocated)} current active; "
        f"{size(free)} free; {size(reserved)} reserved in total by PyTorch)."
        "If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "
        "fragmentation."
    )


def host_out_of_memory(asked: int, held: int, limit: int) -> NoReturn:
    """The host, which holds the memory of the simulated devices, is full."""
    raise torch.OutOfMemoryError(
        f"The host of the simulated NPUs is out of memory. Tried to allocate {size(asked)}; all "
        f"simulated NPUs together hold {size(held)}, and this machine can give them {size(limit)}. "
        "A real NPU has memory of its own: this is a limit of this machine, not of the NPU."
    )


def size(nbytes: int) -> str:
    """Bytes as the real plug-in writes them."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= factor:
            return f"{nbytes / factor:.2f} {unit}"
    return f"{nbytes} bytes"


def function_name(function: Any) -> str:
    """A short name of a torch function."""
    name: Optional[str] = getattr(function, "__name__", None)
    return name or str(function)
