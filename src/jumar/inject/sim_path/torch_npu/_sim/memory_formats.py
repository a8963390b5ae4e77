"""The memory formats that the plug-in refuses.

It creates and converts tensors in the contiguous format only. What copies with a format of its own
(`clone`, `empty_like`, `resize_`) takes others and ignores them."""

from typing import Any, Dict, Tuple

import torch

from torch_npu._sim import refuse

_OTHERS = (torch.channels_last, torch.channels_last_3d)
_CASTS = frozenset(
    getattr(torch.Tensor, name)
    for name in (
        "bfloat16",
        "bool",
        "byte",
        "char",
        "double",
        "float",
        "half",
        "int",
        "long",
        "short",
        "type",
    )
)
_TO = "Only contiguous_format or preserve_format is supported."
_CREATE = "Only c10::MemoryFormat::Contiguous is supported for creating a npu tensor"
_CONTIGUOUS = "NPU contiguous operator only supported contiguous memory format."
_RESIZE = "NPU only support format is contiguous_format or preserve_format."


def is_other(memory_format: Any) -> bool:
    """Whether it is one that the plug-in does not have."""
    return memory_format in _OTHERS


def check_call(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    """Refuse a function of a device tensor that is asked for another format."""
    memory_format = kwargs["memory_format"]
    if memory_format not in _OTHERS:
        return
    if func is torch.Tensor.contiguous:
        if not args[0].is_contiguous(memory_format=memory_format):
            _refuse(_CONTIGUOUS, "contiguous", memory_format)
    elif func is torch.Tensor.resize_as_:
        _refuse(_RESIZE, "resize_as_", memory_format)
    elif func in _CASTS:
        _refuse(_TO, func.__name__, memory_format)


def check_to(changes: bool, arrives: bool, memory_format: Any) -> None:
    """Refuse a `to` that changes anything; a tensor that arrives is created anew."""
    if changes:
        _refuse(_CREATE if arrives else _TO, "to", memory_format)


def check_empty(memory_format: Any) -> None:
    """Refuse to create a tensor in another format."""
    if memory_format in _OTHERS:
        _refuse(_CREATE, "empty", memory_format)


def _refuse(message: str, name: str, memory_format: Any) -> None:
    refuse.refuse(RuntimeError, message, f"{name} with {str(memory_format).replace('torch.', '')}")
