"""Where things are: the simulated devices, the current one of each thread, and their host device."""

import os
import threading
from typing import Any, Optional

import torch

from torch_npu._sim import settings as _settings

CUDA = torch.cuda
"""Torch's own, which `transfer_to_npu` replaces."""
SETTINGS = _settings.load(os.environ, ".".join(torch.__version__.split(".")[:2]))


WRAPPED = SETTINGS.backend != "cpu"
"""Whether device tensors wrap tensors on a card (see `card`) instead of being host tensors."""


class _Current(threading.local):
    index = 0


_current = _Current()
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = _initialized


_initialized = False
os.register_at_fork(after_in_child=_after_fork)


def is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had used a device."""
    return _forked


def initialize() -> None:
    """Mark a device as in use; refused in a forked child, as on a real device."""
    global _initialized
    if _forked and SETTINGS.strict:
        raise RuntimeError(
            "Cannot re-initialize NPU in forked subprocess. To use NPU with "
            "multiprocessing, you must use the 'spawn' start method"
        )
    _initialized = True


def is_initialized() -> bool:
    """Whether a device is in use."""
    return _initialized and not _forked


def current_index() -> int:
    """The current device of this thread."""
    return _current.index


def set_current_index(index: int) -> None:
    """Change the current device of this thread."""
    _current.index = checked_index(index)
    initialize()


def checked_index(index: int) -> int:
    """`index`, if that device exists."""
    if not 0 <= index < SETTINGS.devices:
        raise RuntimeError(
            f"NPU function error: aclrtSetDevice({index}), error code is 107001\n"
            "[ERROR] ERR00100 PTA call acl api failed\n"
            "[Error]: Invalid device ID.\n"
            "        Check whether the device ID is valid.\n"
            f"(npu:{index} was asked for; there are {SETTINGS.devices} simulated NPUs)"
        )
    return index


def index_of(device: Any) -> Optional[int]:
    """The index that `device` means, by default the current one; None if it is not an NPU."""
    if type(device) is int:
        return checked_index(device) if device >= 0 else _current.index
    if not isinstance(device, torch.device):
        device = torch.device(device)
    if device.type != "npu":
        return None
    return _current.index if device.index is None else checked_index(device.index)


def host_device(index: int) -> torch.device:
    """Where the data of simulated device `index` really is."""
    if SETTINGS.backend == "cuda":
        return torch.device("cuda", index % CUDA.device_count())
    return torch.device("cpu")
