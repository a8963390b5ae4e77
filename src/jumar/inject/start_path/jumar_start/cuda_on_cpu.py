"""Runs code written for CUDA on the CPU, unedited: `cuda` means the CPU in this process.

For the proof of a port, which is compared with the original. Wherever torch takes a device, cuda means
cpu; moves between host and device copy, as with a card; random numbers come from the host's generator,
as with simulated NPUs, so that both runs draw the same ones."""

import functools
import importlib
import re
import sys
from typing import Any, Callable, Dict, Iterator, Tuple

import torch
from torch.utils.weak import WeakIdKeyDictionary

from jumar_start import cuda_names, scripted, simulation, sync_norm

_CUDA = re.compile(r"cuda(:\d+)?")
_KEYWORDS = ("device", "device_type", "map_location")
_moved: Any = WeakIdKeyDictionary()
"""Tensors that were moved to the device; moving them there again is a no-op."""
_Host = torch._C.Generator


def _cpu(value: Any) -> Any:
    """`value` with cuda replaced by cpu; what is not a device is returned unchanged."""
    if isinstance(value, str):
        if _CUDA.fullmatch(value):
            return "cpu"
        return value.replace("torch.cuda.", "torch.")
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    if isinstance(value, dict):
        return {_cpu(key): _cpu(item) for key, item in value.items()}
    return value


def _index(value: Any) -> Any:
    """Like `_cpu`, where a number is a device too."""
    return torch.device("cpu") if type(value) is int else _cpu(value)


def _reads_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name in _KEYWORDS:
            if kwargs.get(name) is not None:
                kwargs[name] = _index(kwargs[name])
        return function(*[_cpu(arg) for arg in args], **kwargs)

    return scripted.as_before(call, function)


def _made_there(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that creates tensors: those requested on cuda count as there."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None:
            return function(*args, **kwargs)
        kwargs["device"] = _index(device)
        made = function(*args, **kwargs)
        if kwargs["device"] != device:
            _moved[made] = True
        return made

    return scripted.as_before(call, function)


_tensor_to: Any = torch.Tensor.to
_module_to: Any = torch.nn.Module.to


def _all_to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """A module moves its tensors one by one; C++ parses its arguments before that."""
    if args and type(args[0]) is int:
        args = (torch.device("cuda", args[0]), *args[1:])
    if type(kwargs.get("device")) is int:
        kwargs["device"] = torch.device("cuda", kwargs["device"])
    return _module_to(self, *args, **kwargs)


def _to(self: Any, *args: Any, **kwargs: Any) -> Any:
    asked = kwargs.get("device", args[0] if args else None)
    there = [_index(args[0]), *args[1:]] if args else []
    if "device" in kwargs:
        kwargs["device"] = _index(kwargs["device"])
    result = _tensor_to(self, *there, **kwargs)
    moves = isinstance(asked, (str, int, torch.device)) and not isinstance(asked, bool)
    return _copied(self, result, is_cuda=_index(asked) != asked) if moves else result


def _copied(source: Any, result: Any, *, is_cuda: bool) -> Any:
    """The result of a move: another tensor, unless the source is already there."""
    if torch.jit.is_tracing():
        # A trace is checked against a second one, whose tensors are copies of unknown origin.
        return result
    if result is source and not (is_cuda and source in _moved):
        result = source.clone()
    if is_cuda:
        _moved[result] = True
    return result


def _tensor_cuda(self: Any, *args: Any, **kwargs: Any) -> Any:
    return _copied(self, self, is_cuda=True)


def _tensor_cpu(self: Any, *args: Any, **kwargs: Any) -> Any:
    return _copied(self, self, is_cuda=False)


def _itself(value: Any, *args: Any, **kwargs: Any) -> Any:
    return value


def _replace_functions() -> None:
    from torch.utils import _device

    makers = {function.__name__ for function in _device._device_constructors()}
    makers |= {name for name in dir(torch) if name.endswith("_like")}
    for name in makers:
        if hasattr(torch, name):
            setattr(torch, name, _made_there(getattr(torch, name)))
    for name in ("new_empty", "new_full", "new_ones", "new_zeros", "new_tensor"):
        setattr(torch.Tensor, name, _made_there(getattr(torch.Tensor, name)))
    for owner, name in _readers():
        if hasattr(owner, name):
            setattr(owner, name, _reads_cpu(getattr(owner, name)))
    torch.Tensor.to = _to
    torch.nn.Module.to = _all_to
    torch.Tensor.cuda = _tensor_cuda
    torch.Tensor.cpu = _tensor_cpu
    torch.Tensor.pin_memory = _itself
    torch.Tensor.record_stream = cuda_names.nothing
    torch.UntypedStorage.cuda = torch.TypedStorage.cuda = _itself
    torch.load = scripted.loading_on(_index, torch.load)


def _readers() -> Iterator[Tuple[Any, str]]:
    """Functions that take a device and create no tensor."""
    from torch.utils import _device

    yield from ((torch, name) for name in ("set_default_device", "set_default_tensor_type"))
    yield from ((torch, name) for name in ("get_autocast_dtype", "set_autocast_dtype"))
    yield from ((torch, name) for name in ("is_autocast_enabled", "set_autocast_enabled"))
    yield torch.Tensor, "type"
    yield torch.nn.Module, "to_empty"
    yield _device.DeviceContext, "__init__"
    yield torch.amp.GradScaler, "__init__"
    yield torch.random, "fork_rng"


def _replace_autocast() -> None:
    """On cuda the default dtype is float16; on the CPU it would be bfloat16."""
    autocast = torch.amp.autocast_mode.autocast
    begin = autocast.__init__

    @functools.wraps(begin)
    def init(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda" and dtype is None:
            dtype = torch.float16
        begin(self, _cpu(device_type), dtype, *args, **kwargs)

    autocast.__init__ = init
    is_enabled = torch.is_autocast_enabled
    torch.is_autocast_enabled = scripted.as_before(
        lambda device_type="cpu": is_enabled(device_type), is_enabled
    )
    torch.get_autocast_gpu_dtype = lambda: torch.get_autocast_dtype("cpu")


class _Kind(type(_Host)):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _Host)


class _Generator(_Host, metaclass=_Kind):
    def __new__(cls, device: Any = "cpu") -> Any:
        return _Host(_index(device))


def _replace_parallel() -> None:
    # What torch does on a machine without cards: the module unchanged.
    data_parallel: Any = importlib.import_module("torch.nn.parallel.data_parallel")
    data_parallel._get_available_device_type = lambda: None
    if not torch.distributed.is_available():
        return
    from torch.distributed import device_mesh

    dist = torch.distributed
    for name in ("init_process_group", "new_group"):
        setattr(dist, name, _over_gloo(getattr(dist, name)))
    dist.is_nccl_available = lambda: True
    dist.init_device_mesh = device_mesh.init_device_mesh = _reads_cpu(device_mesh.init_device_mesh)
    parallel = torch.nn.parallel.DistributedDataParallel
    parallel.__init__ = _without_devices(parallel.__init__)
    sync_norm.install()
    simulation.part("gentle_end").install()


def _over_gloo(function: Callable[..., Any]) -> Callable[..., Any]:
    def renamed(value: Any) -> Any:
        if not isinstance(value, str) or "nccl" not in value:
            return value
        return "gloo"

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        if "backend" in kwargs:
            kwargs["backend"] = renamed(kwargs["backend"])
        return function(*[renamed(arg) for arg in args], **kwargs)

    return call


def _without_devices(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(
        self: Any,
        module: Any,
        device_ids: Any = None,
        output_device: Any = None,
        *args: Any,
        **kw: Any,
    ) -> Any:
        return function(self, module, None, None, *args, **kw)

    return call


_ACCELERATOR = {
    "current_device_index": "current_device",
    "current_device_idx": "current_device",
    "get_memory_info": "mem_get_info",
    "set_device_index": "set_device",
    "set_device_idx": "set_device",
    "device_index": "device",
}


def _replace_accelerator(names: Dict[str, Any]) -> None:
    """Portable originals ask `torch.accelerator`, which must answer cuda."""
    if not hasattr(torch, "accelerator"):
        return
    names = {**names, **{name: names[other] for name, other in _ACCELERATOR.items()}}
    names["current_accelerator"] = lambda check_available=False: torch.device("cuda")
    for module in (torch.accelerator, getattr(torch.accelerator, "memory", None)):
        for name, value in names.items():
            if hasattr(module, name):
                setattr(module, name, value)


def _compile(model: Any = None, **kwargs: Any) -> Any:
    """Not compiled, as on simulated NPUs: modules get the wrapper of compiled ones, functions stay."""
    if model is None:
        return _compile
    return torch.compiler.disable(model) if isinstance(model, torch.nn.Module) else model


def install() -> None:
    """Make cuda mean the CPU."""
    _replace_functions()
    _replace_autocast()
    _replace_parallel()
    torch.Generator = _Generator
    torch.compile = _compile
    scripted.install(_cpu)
    names = cuda_names.names()
    _replace_accelerator(names)
    for module in [torch.cuda, *_parts()]:
        for name, value in names.items():
            if hasattr(module, name):
                setattr(module, name, value)


def _parts() -> Iterator[Any]:
    for name in ("graphs", "memory", "random", "streams", "nvtx"):
        part = sys.modules.get(f"torch.cuda.{name}")
        if part is not None:
            yield part
