"""The errors of a real NPU: raised in strict mode, listed in warn mode.

Out of memory and a bad device index are errors in every mode; they are raised where they occur."""

import warnings
from typing import TYPE_CHECKING, Any, NoReturn, Optional, Type

import torch

from torch_npu._sim.place import SETTINGS
from torch_npu._sim.record import RECORD, user_line

if TYPE_CHECKING:
    from torch_npu._sim.dtypes import Kernel

_ACL_NAMES = {"float32": "DT_FLOAT", "float64": "DT_DOUBLE", "bfloat16": "DT_BF16"}


def refuse(error: Type[Exception], message: str, what: str) -> None:
    """Raise in strict mode; else count it, and warn the first time at this line."""
    first = RECORD.event("refused", what)
    if SETTINGS.strict:
        raise error(message)
    if first:
        _warn(f"a real NPU would refuse this: {message}")


def _warn(message: str, kind: Type[Warning] = RuntimeWarning) -> None:
    """Warn at the line of the user's source, not at one of torch."""
    place = user_line()
    warnings.warn_explicit(message, kind, place.file, place.line)


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


def host_gradient(index: int, device: torch.device) -> None:
    """A gradient on the host for a tensor on the device."""
    refuse(
        RuntimeError,
        f"invalid gradient at index {index} - expected device {device} but got cpu",
        f"a gradient on the host for a tensor on {device.type}",
    )


def host_generator() -> None:
    """Random numbers on the device from a generator of the host."""
    refuse(
        RuntimeError,
        "Expected a 'npu' device type for generator but found 'cpu'",
        "a generator of the host",
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
    """An operator without a kernel: the plug-in warns and runs it on the host, unless told not to."""
    first = RECORD.host_operator(name)
    if not SETTINGS.runs_on_host:
        refuse(
            RuntimeError,
            f"The operator 'aten::{name}' would execute its main computation on CPU through "
            "dispatcher backend fallback because no kernel is registered for the NPU PrivateUse1 "
            "backend, but CPU fallback is disabled by TORCH_NPU_FALLBACK_CPU_DISABLE=1.",
            f"{name} on the CPU",
        )
    elif first:
        _warn(
            f"CAUTION: The operator 'aten::{name}' is not currently supported on the NPU backend and "
            "will fall back to run on the CPU. This may have performance implications. "
            "(function npu_cpu_fallback)"
        )


def failed_kernel(operator: str, kernel: str, detail: str, what: str) -> None:
    """A kernel that does not accept its arguments."""
    refuse(
        RuntimeError,
        f"{operator}: NPU function error: call {kernel} failed, error code is 161002\n"
        "[ERROR] ERR00100 PTA call acl api failed.\n"
        f"AclNN_Parameter_Error(EZ1001): {detail}",
        what,
    )


def missing_dtype(operator: str, kernel: "Kernel", dtype: torch.dtype) -> None:
    """A computation in a dtype that its kernel does not support."""
    supported = ",".join(sorted(_acl_name(each) for each in kernel.dtypes))
    failed_kernel(
        operator.partition(".")[0],
        kernel.name,
        f"Tensor {kernel.argument} not implemented for {_acl_name(dtype)}, "
        f"should be in dtype support list [{supported}].",
        f"{operator} in {_short(dtype)}",
    )


def _short(dtype: torch.dtype) -> str:
    return str(dtype).replace("torch.", "")


def _acl_name(dtype: torch.dtype) -> str:
    short = _short(dtype)
    return _ACL_NAMES.get(short, f"DT_{short.upper()}")


def double_replaced() -> None:
    """A cast to float64, which the plug-in turns into one to float32; not a refusal, and said once."""
    if not RECORD.told_of_double:
        RECORD.told_of_double = True
        _warn("Device do not support double dtype now, dtype cast replace with float.", UserWarning)


def tensor_as_factor() -> None:
    """A sum whose factor is a tensor: the plug-in reads numbers only, and finds 0."""
    _warn("HCCL takes no tensor as the factor of PREMUL_SUM and multiplies by 0; give a number")


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
