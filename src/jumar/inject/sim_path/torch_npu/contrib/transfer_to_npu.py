"""Runs code written for CUDA on NPUs, unedited: `from torch_npu.contrib import transfer_to_npu`.

Does what the real one does: `torch.cuda` becomes `torch.npu`, cuda in device arguments becomes npu,
nccl becomes hccl, and `torch.jit.script` is disabled."""

import functools
import sys
import warnings
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch.utils import _device

import torch_npu
from torch_npu._sim import generators

_FUNCTIONS = [
    "logspace",
    "randint",
    "hann_window",
    "rand",
    "full_like",
    "ones_like",
    "rand_like",
    "randperm",
    "arange",
    "frombuffer",
    "normal",
    "empty_strided",
    "empty_like",
    "scalar_tensor",
    "tril_indices",
    "bartlett_window",
    "ones",
    "sparse_coo_tensor",
    "randn",
    "kaiser_window",
    "tensor",
    "triu_indices",
    "as_tensor",
    "zeros",
    "randint_like",
    "full",
    "eye",
    "empty",
    "blackman_window",
    "zeros_like",
    "range",
    "sparse_csr_tensor",
    "randn_like",
    "from_file",
    "linspace",
    "hamming_window",
    "asarray",
    "load",
    "set_default_device",
    "get_device_module",
    "sparse_compressed_tensor",
]
_METHODS = [
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_tensor",
    "new_zeros",
    "to",
    "pin_memory",
    "type",
]
_OF_DEVICES = [
    "caching_allocator_alloc",
    "can_device_access_peer",
    "current_stream",
    "default_stream",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_device",
    "set_per_process_memory_fraction",
    "synchronize",
    "utilization",
]
_KEYWORDS = ("device", "device_type", "map_location", "device_id", "output_device")
_TAKES_INDEX = ("to", "to_empty")


def _npu(value: Any, index_is_device: bool = False) -> Any:
    """`value` with cuda replaced by npu; what is not a device is returned unchanged."""
    if isinstance(value, str):
        return value.replace("cuda", "npu") if "cuda" in value else value
    if isinstance(value, torch.device):
        if value.type != "cuda":
            return value
        return torch.device(str(value).replace("cuda", "npu"))
    if isinstance(value, dict):
        return {_npu(key): _npu(item) for key, item in value.items()}
    if index_is_device and type(value) is int:
        return torch.device("npu", value)
    return value


def _translated(function: Any) -> Callable[..., Any]:
    takes_index = getattr(function, "__name__", "") in _TAKES_INDEX

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple(
            _npu(arg, takes_index) if isinstance(arg, (str, torch.device, dict, int)) else arg
            for arg in args
        )
        for name in _KEYWORDS:
            if kwargs.get(name) is not None:
                kwargs[name] = _npu(
                    kwargs[name], index_is_device=name in ("device", "map_location")
                )
        if isinstance(kwargs.get("device_ids"), (list, tuple)):
            kwargs["device_ids"] = [_npu(item) for item in kwargs["device_ids"]]
        return function(*args, **kwargs)

    return call


def _over_hccl(function: Any) -> Callable[..., Any]:
    def rename(value: Any) -> Any:
        return (
            value.replace("nccl", "hccl").replace("cuda", "npu")
            if isinstance(value, str)
            else value
        )

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "backend" in kwargs:
            kwargs["backend"] = rename(kwargs["backend"])
        if kwargs.get("device_id") is not None:
            kwargs["device_id"] = _npu(kwargs["device_id"], index_is_device=True)
        return function(*[rename(arg) for arg in args], **kwargs)

    return call


def _replace_modules() -> None:
    npu = torch_npu.npu
    npu.DoubleTensor = npu.FloatTensor
    npu.CUDAGraph = npu.NPUGraph
    npu.OutOfMemoryError = torch.OutOfMemoryError
    # Torch itself reads private names of torch.cuda, even where there is no card.
    npu.__getattr__ = functools.partial(_private_name, torch.cuda)
    # It also imports private modules of it, some only later.
    npu.__path__ = [*npu.__path__, *torch.cuda.__path__]
    torch.cuda = npu
    for name in [
        name for name in sys.modules if name == "torch.cuda" or name.startswith("torch.cuda.")
    ]:
        twin = sys.modules.get(name.replace("torch.cuda", "torch_npu.npu", 1))
        if twin is not None:
            sys.modules[name] = twin


def _private_name(cuda: Any, name: str) -> Any:
    if name.startswith("_") and not name.startswith("__"):
        return getattr(cuda, name)
    raise AttributeError(f"module 'torch_npu.npu' has no attribute {name!r}")


def _replace_functions() -> None:
    for owner, names in _places():
        for name in names:
            if hasattr(owner, name):
                setattr(owner, name, _translated(getattr(owner, name)))
    torch.Tensor.cuda = torch.Tensor.npu
    torch.Tensor.is_cuda = torch.Tensor.is_npu
    torch_npu._sim.tensor.NPUTensor.is_cuda = property(lambda self: True)
    torch.nn.Module.cuda = torch.nn.Module.npu
    _device.DeviceContext.__init__ = _translated(_device.DeviceContext.__init__)
    torch.amp.autocast_mode.autocast.__init__ = _translated(
        torch.amp.autocast_mode.autocast.__init__
    )
    torch.amp.GradScaler.__init__ = _translated(torch.amp.GradScaler.__init__)


def _places() -> List[Tuple[Any, List[str]]]:
    return [
        (torch, _FUNCTIONS),
        (torch.Tensor, _METHODS),
        (torch_npu.npu, _OF_DEVICES),
        (torch.nn.Module, list(_TAKES_INDEX)),
        (torch.fft, ["fftfreq", "rfftfreq"]),
        (torch.nn.parallel.DistributedDataParallel, ["__init__"]),
        (torch.random, ["fork_rng"]),
    ]


class _Generator(generators.Generator):
    def __new__(cls, device: Any = "cpu") -> Any:
        return generators.Generator(_npu(device))


def _replace_distributed() -> None:
    dist = torch.distributed
    if not dist.is_available():
        return
    dist.init_process_group = _over_hccl(dist.init_process_group)
    dist.new_group = _over_hccl(dist.new_group)
    dist.is_nccl_available = dist.is_hccl_available
    from torch.distributed import device_mesh, fsdp

    device_mesh.init_device_mesh = _translated(device_mesh.init_device_mesh)
    dist.init_device_mesh = device_mesh.init_device_mesh
    fsdp.FullyShardedDataParallel.__init__ = _translated(fsdp.FullyShardedDataParallel.__init__)


def _not_scripted(obj: Any, *args: Any, **kwargs: Any) -> Any:
    return obj


def _install() -> None:
    warnings.warn(
        "torch.jit.script and torch.jit.script_method will be disabled by transfer_to_npu, which "
        "currently does not support them. If you need to enable them, please do not use transfer_to_npu.",
        RuntimeWarning,
        stacklevel=2,
    )
    _replace_functions()
    _replace_modules()
    _replace_distributed()
    torch.Generator = _Generator
    torch.jit.script = _not_scripted
    torch.jit.script_method = _not_scripted
    torch.profiler.profile = torch_npu.profiler.profile
    _state["installed"] = True


_state: Dict[str, bool] = {}
_install()
