"""Which devices there are, which one is current, and what they are."""

import os
import re
from dataclasses import dataclass
from typing import Any, Optional, Tuple

import torch

from torch_npu._sim import place
from torch_npu._sim.place import SETTINGS
from torch_npu._sim.record import RECORD


@dataclass(frozen=True)
class DeviceProperties:
    """The figures of a device, by the names of the real plug-in."""

    name: str
    total_memory: int
    cube_core_num: int
    vector_core_num: int
    L2_cache_size: int
    multi_processor_count: int
    major: Optional[int] = None
    minor: Optional[int] = None
    is_multi_gpu_board: Optional[int] = None
    is_integrated: Optional[int] = None
    max_threads_per_multi_processor: Optional[int] = None
    warp_size: Optional[int] = None
    regs_per_multiprocessor: Optional[int] = None
    gcnArchName: Optional[str] = None
    uuid: str = "00000000-0000-0000-0000-000000000000"


def init() -> None:
    """Use the devices from now on."""
    place.initialize()


def is_initialized() -> bool:
    """Whether the devices are in use."""
    return place.is_initialized()


def is_available() -> bool:
    """Whether there is a device."""
    return SETTINGS.devices > 0


def device_count() -> int:
    """How many there are."""
    return SETTINGS.devices


def current_device() -> int:
    """The index of the current one."""
    place.initialize()
    return place.current_index()


def set_device(device: Any) -> None:
    """Make another one current; a negative index changes nothing."""
    if type(device) is int and device < 0:
        return
    place.set_current_index(_index(device))


def synchronize(device: Any = None) -> None:
    """Wait for the device."""
    _index(device)
    if SETTINGS.checks:
        RECORD.event("wait", "npu.synchronize")
    if SETTINGS.backend == "cuda":
        place.CUDA.synchronize()


def _index(device: Any = None) -> int:
    if device is None:
        return place.current_index()
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device) and device.type != "npu":
        raise ValueError(f"Expected a npu device, but got: {device}")
    index = place.index_of(device)
    return place.current_index() if index is None else index


class device:
    """Makes a device current inside a `with` block; None or a negative index changes nothing."""

    def __init__(self, device: Any) -> None:
        nothing = device is None or (type(device) is int and device < 0)
        self.idx = -1 if nothing else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = place.current_index()
            place.set_current_index(self.idx)

    def __exit__(self, *exception: Any) -> bool:
        if self.idx >= 0:
            place.set_current_index(self.prev_idx)
        return False


class device_of(device):
    """Makes the device of a tensor current; of one on the host, changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.device.type == "npu" else -1)


def get_device_name(device_name: Any = None) -> str:
    """The name of the chip."""
    _index(device_name)
    return SETTINGS.chip.name


def get_device_properties(device_name: Any = None) -> DeviceProperties:
    """The figures of the chip."""
    _index(device_name)
    chip = SETTINGS.chip
    return DeviceProperties(
        name=chip.name,
        total_memory=SETTINGS.memory,
        cube_core_num=chip.cube_cores,
        vector_core_num=chip.vector_cores,
        L2_cache_size=chip.l2_cache,
        multi_processor_count=chip.cube_cores,
    )


def get_device_capability(device: Any = None) -> Optional[Tuple[int, int]]:
    """What TORCH_NPU_DEVICE_CAPABILITY says, such as 8.0. Without it None: an NPU has no compute capability,
    and code that indexes it fails here as there."""
    _index(device)
    set_by_user = re.fullmatch(r"(\d+)\.(\d+)", os.environ.get("TORCH_NPU_DEVICE_CAPABILITY", ""))
    return None if set_by_user is None else (int(set_by_user[1]), int(set_by_user[2]))


def get_soc_version() -> int:
    """The number of the chip's kind."""
    return SETTINGS.chip.soc_version


def can_device_access_peer(device_id: Any, peer_device_id: Any) -> bool:
    """Whether one device reads another's memory."""
    return _index(device_id) != _index(peer_device_id)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the chip computes in bfloat16."""
    return "bfloat16" not in SETTINGS.chip.lacks


def utilization(device: Any = None) -> int:
    """Percent of time that the device was busy; a simulated one never is."""
    _index(device)
    return 0


device_index = _index
