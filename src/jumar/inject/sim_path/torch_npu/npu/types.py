"""`torch.npu.FloatTensor` and the like: they make tensors and answer `isinstance`; `torch.npu.FloatStorage` and
the like do the same for storages."""

from typing import Any

import torch

from torch_npu._sim.methods import TYPE_NAMES


class _Type(type):
    dtype: torch.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and instance.device.type == "npu"
            and instance.dtype is cls.dtype
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        host_type = getattr(torch, TYPE_NAMES[cls.dtype])
        return host_type(*args, **kwargs).to("npu")


def _make(dtype: torch.dtype) -> Any:
    name = TYPE_NAMES[dtype]
    return _Type(name, (), {"dtype": dtype, "__module__": "torch.npu", "is_npu": True})


FloatTensor = _make(torch.float32)
DoubleTensor = _make(torch.float64)
HalfTensor = _make(torch.float16)
BFloat16Tensor = _make(torch.bfloat16)
ByteTensor = _make(torch.uint8)
CharTensor = _make(torch.int8)
ShortTensor = _make(torch.int16)
IntTensor = _make(torch.int32)
LongTensor = _make(torch.int64)
BoolTensor = _make(torch.bool)


class _StorageType(type):
    dtype: torch.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, torch.TypedStorage) or instance.dtype is not cls.dtype:
            return False
        # `memory` marks the storages of devices; to torch they are the host's.
        return "_npu" in vars(instance._untyped_storage)

    def __call__(cls, content: Any = 0) -> Any:
        """A storage with these values, or of this many elements."""
        make = torch.empty if type(content) is int else torch.tensor
        tensor: Any = make(content, dtype=cls.dtype)
        return tensor.npu()._typed_storage()


def _make_storage(dtype: torch.dtype) -> Any:
    name = TYPE_NAMES[dtype].replace("Tensor", "Storage")
    return _StorageType(name, (), {"dtype": dtype, "__module__": "torch.npu"})


FloatStorage = _make_storage(torch.float32)
DoubleStorage = _make_storage(torch.float64)
HalfStorage = _make_storage(torch.float16)
BFloat16Storage = _make_storage(torch.bfloat16)
ByteStorage = _make_storage(torch.uint8)
CharStorage = _make_storage(torch.int8)
ShortStorage = _make_storage(torch.int16)
IntStorage = _make_storage(torch.int32)
LongStorage = _make_storage(torch.int64)
BoolStorage = _make_storage(torch.bool)
