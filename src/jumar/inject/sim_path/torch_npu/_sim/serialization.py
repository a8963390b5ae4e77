"""Saving and loading device tensors.

Any torch can read a saved file: it holds host storages, and with each tensor a note of its device that
torch without this plug-in ignores. Loaded here, the tensors go back to their device, or to where
`map_location` says."""

import functools
import pickle
import threading
from collections import OrderedDict
from typing import Any, Dict, Optional

import torch

from torch_npu._sim import card, place
from torch_npu._sim import tensor as device_tensor
from torch_npu._sim.moves import cpu, to
from torch_npu._sim.place import WRAPPED
from torch_npu._sim.tensor import NPUTensor, Tensor, tag, untag, without_functions

_load = torch.load
_rebuild_tensor = torch._utils._rebuild_tensor
_set_metadata = torch._utils.set_tensor_metadata


class _Loading(threading.local):
    active = False
    location: Any = None


_loading = _Loading()


def _reduce(self: Any, protocol: int) -> Any:
    with without_functions():
        if getattr(self, "_is_param", False):
            return _reduce_parameter(self)
        twin = cpu(self.detach()) if WRAPPED else untag(self.detach())
        twin.requires_grad_(self.requires_grad)
        rebuild, arguments = twin._reduce_ex_internal(protocol)
    if rebuild is torch._utils._rebuild_tensor_v2:
        metadata: Dict[str, bool] = dict(arguments[6]) if len(arguments) > 6 else {}
        metadata[f"npu:{type(self).npu_index}"] = True
        arguments = (*arguments[:6], metadata)
    return rebuild, arguments


def _reduce_parameter(self: Any) -> Any:
    data = tag(self.detach(), type(self))
    data.__dict__.pop("_is_param", None)
    ours = ("_is_param", "_inner")
    state = {key: value for key, value in self.__dict__.items() if key not in ours}
    if state:
        rebuild: Any = torch._utils._rebuild_parameter_with_state
        return rebuild, (data, self.requires_grad, OrderedDict(), state)
    return torch._utils._rebuild_parameter, (data, self.requires_grad, OrderedDict())


def _wanted(location: str) -> Optional[int]:
    """The device for a tensor saved at `location`, None for the host."""
    mapped: Any = _loading.location if _loading.active else None
    if isinstance(mapped, dict):
        mapped = mapped.get(location)
    if mapped is None or callable(mapped):
        mapped = location
    device = torch.device(mapped)
    return None if device.type == "cpu" else place.index_of(device)


def _rebuild(storage: Any, *args: Any) -> Any:
    with without_functions():
        tensor = _rebuild_tensor(storage, *args)
        if not _loading.active:
            return tensor
        untyped = getattr(storage, "_untyped_storage", storage)
        moved = untyped.__dict__.get("_npu_location")
        index = _wanted(moved) if moved is not None else None
        return tensor if index is None else _placed(tensor, index)


def _placed(tensor: Any, index: int) -> Any:
    if WRAPPED:
        return to(tensor, torch.device("npu", index))
    return tag(tensor, device_tensor.CLASSES[index])


def _restore_metadata(tensor: Any, metadata: Dict[str, bool]) -> None:
    """Torch's own, plus the note of the device if there is one."""
    noted = [key for key in metadata if key.startswith("npu:")]
    rest = {key: value for key, value in metadata.items() if key not in noted}
    if rest:
        _set_metadata(tensor, rest)
    if not noted or callable(_loading.location):
        return
    index = _wanted(noted[0])
    with without_functions():
        if index is None:
            untag(tensor)
        elif index < place.SETTINGS.devices:
            if WRAPPED:
                card.become(tensor, _placed(tensor.detach(), index))
            else:
                tag(tensor, device_tensor.CLASSES[index])


def _note_location(storage: Any, location: str) -> Any:
    storage.__dict__["_npu_location"] = location
    return storage


@functools.wraps(_load)
def _load_mapped(f: Any, map_location: Any = None, pickle_module: Any = None, **kwargs: Any) -> Any:
    if pickle_module is None and not kwargs.get("weights_only", True):
        pickle_module = pickle
    outer = (_loading.active, _loading.location)
    _loading.active, _loading.location = True, map_location
    try:
        mapping: Any = map_location
        if _names_npu(map_location):
            mapping = _note_location
        return _load(f, mapping, pickle_module, **kwargs)
    finally:
        _loading.active, _loading.location = outer


def _names_npu(location: Any) -> bool:
    if isinstance(location, dict):
        return any(_names_npu(value) for value in location.values())
    if isinstance(location, (str, torch.device)):
        return torch.device(location).type == "npu"
    return False


def _storage_to_npu(
    self: Any, device: Any = None, non_blocking: bool = False, **kwargs: Any
) -> Any:
    """`storage.npu()`, as callers of `map_location` use it."""
    index = place.index_of(torch.device("npu") if device is None else device)
    self.__dict__["_npu_location"] = f"npu:{index or 0}"
    return self


def install() -> None:
    """Replace torch's own with these."""
    NPUTensor.__reduce_ex__ = _reduce
    device_tensor.HANDLERS[Tensor.__reduce_ex__] = lambda func, args, kwargs: _reduce(*args)
    torch._utils._rebuild_tensor = _rebuild
    torch._utils.set_tensor_metadata = _restore_metadata
    torch.UntypedStorage.npu = _storage_to_npu
    torch.load = _load_mapped
    torch.serialization.load = _load_mapped
