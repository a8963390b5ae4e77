"""How many cores of the chip a device or a stream may use: stored and returned."""

from typing import Any, Dict, Tuple

from torch_npu._sim.place import SETTINGS
from torch_npu.npu.devices import device_index
from torch_npu.npu.streams import Stream

__all__ = [
    "get_device_limit",
    "get_stream_limit",
    "reset_stream_limit",
    "set_device_limit",
    "set_stream_limit",
]

_Cores = Dict[str, int]
_devices: Dict[int, _Cores] = {}
_streams: Dict[Tuple[int, int], _Cores] = {}


def _checked(device: Any) -> int:
    if isinstance(device, bool) or not isinstance(device, int):
        raise TypeError(f"device must be an int, but got {type(device).__name__}")
    return device_index(device)


def _key(stream: Any) -> Tuple[int, int]:
    if not isinstance(stream, Stream):
        raise AssertionError(f"stream should be torch_npu.npu.Stream, could not be {type(stream)}")
    return stream.device_index, stream.stream_id


def _change(cores: _Cores, cube_num: int, vector_num: int) -> _Cores:
    given = {"cube_core_num": cube_num, "vector_core_num": vector_num}
    return {**cores, **{name: number for name, number in given.items() if number != -1}}


def set_device_limit(device: int, cube_num: int = -1, vector_num: int = -1) -> None:
    """Set the cores of a device; -1 leaves a kind as it is."""
    index = _checked(device)
    if index in _devices:
        raise RuntimeError("set_device_limit has already been called; it can only be set once")
    _devices[index] = _change(get_device_limit(device), cube_num, vector_num)


def get_device_limit(device: int) -> _Cores:
    """The cores of a device."""
    chip = SETTINGS.chip
    every = {"cube_core_num": chip.cube_cores, "vector_core_num": chip.vector_cores}
    return dict(_devices.get(_checked(device), every))


def set_stream_limit(stream: Any, cube_num: int = -1, vector_num: int = -1) -> None:
    """Set the cores of a stream; -1 leaves a kind as it is."""
    key = _key(stream)
    _streams[key] = _change(get_stream_limit(stream), cube_num, vector_num)


def get_stream_limit(stream: Any) -> _Cores:
    """The cores of a stream: those of its device unless set."""
    key = _key(stream)
    return dict(_streams.get(key) or get_device_limit(key[0]))


def reset_stream_limit(stream: Any) -> None:
    """As many cores as the device has."""
    _streams.pop(_key(stream), None)
