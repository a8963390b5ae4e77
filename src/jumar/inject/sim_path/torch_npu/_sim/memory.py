"""How much each simulated device holds.

Every storage on a device carries an `Allocation`, which lives exactly as long as the storage, so that
freed memory needs no notification."""

import os
from typing import Any, Dict, List

import torch

from torch_npu._sim import refuse
from torch_npu._sim.place import SETTINGS, WRAPPED

_strided = torch.strided
_BLOCK = 512
_SEGMENT = 2 << 20
_HOST_SHARE = 0.9


def _host_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # not every system tells
        return 1 << 62


def _round_up(nbytes: int, unit: int) -> int:
    return -(-nbytes // unit) * unit


class Ledger:
    """The memory of one device."""

    def __init__(self, index: int, limit: int) -> None:
        self.index = index
        self.limit = limit
        self.fraction = 1.0
        self.allocated = self.peak = self.highest = 0
        self.crest = 0
        """The peak since `watch` last looked."""
        self.reserved = self.reserved_peak = 0
        self.allocations = self.frees = self.refusals = 0

    def reach(self, nbytes: int) -> None:
        """Note that `nbytes` more are held for a moment, or raise the error of a full device."""
        total = self.allocated + nbytes
        if total > self.limit * self.fraction:
            self.refusals += 1
            refuse.out_of_memory(self.index, nbytes, self.allocated, self.reserved, self.limit)
        if nbytes >= _SEGMENT and self._host_is_full(nbytes):
            self.refusals += 1
            refuse.host_out_of_memory(nbytes, _all_held(), _HOST_LIMIT)
        if total > self.peak:
            self.peak = total
            self.highest = max(self.highest, total)
            if total > self.reserved:
                self.reserved = _round_up(total, _SEGMENT)
                self.reserved_peak = max(self.reserved_peak, self.reserved)

    def empty_cache(self) -> None:
        """Free what is reserved and not used."""
        self.reserved = _round_up(self.allocated, _SEGMENT)

    def reset_peak(self) -> None:
        """Measure peaks from now on; `highest` stays the one of the whole run."""
        self.peak = self.allocated
        self.reserved_peak = self.reserved

    @staticmethod
    def _host_is_full(nbytes: int) -> bool:
        if SETTINGS.backend == "cuda":
            return False
        return _all_held() + nbytes > _HOST_LIMIT


class Allocation:
    """One storage's share of a device's memory."""

    __slots__ = ("ledger", "nbytes", "serial")

    def __init__(self, ledger: Ledger, nbytes: int) -> None:
        self.nbytes = 0
        self.ledger = ledger
        rounded = (nbytes + _BLOCK - 1) & -_BLOCK
        # Every result gets one: what happens most often is written out here.
        total = ledger.allocated + rounded
        if total > ledger.peak or rounded >= _SEGMENT:
            ledger.reach(rounded)
        ledger.allocated = total
        ledger.allocations += 1
        if total > ledger.crest:
            ledger.crest = total
        self.nbytes = rounded
        self.serial = ledger.allocations

    def __del__(self) -> None:
        if self.nbytes:
            ledger = self.ledger
            ledger.allocated -= self.nbytes
            ledger.frees += 1


_HOST_LIMIT = int(_host_memory() * _HOST_SHARE)
LEDGERS: List[Ledger] = [Ledger(index, SETTINGS.memory) for index in range(SETTINGS.devices)]


def _all_held() -> int:
    return sum(ledger.allocated for ledger in LEDGERS)


def expect(index: int, nbytes: int) -> None:
    """Raise if an allocation would not fit, before the host is asked for the memory."""
    LEDGERS[index].reach(nbytes)


def _storage_of(tensor: Any) -> Any:
    if WRAPPED:
        tensor = tensor.__dict__.get("_inner", tensor)
    return tensor.untyped_storage()


def hold(tensor: Any, index: int) -> None:
    """Account for the storage of `tensor` once; called with torch functions disabled."""
    if tensor.layout is not _strided:
        return
    try:
        storage = _storage_of(tensor) if WRAPPED else tensor.untyped_storage()
    except NotImplementedError:  # wrappers of functorch have no storage of their own
        return
    marks = storage.__dict__
    nbytes = storage.nbytes()
    mark = marks.get("_npu")
    if mark is None:
        marks["_npu"] = Allocation(LEDGERS[index], nbytes)
    elif mark.nbytes < nbytes:
        # C++ made it empty and let it grow.
        resized(storage)


def holder(tensor: Any) -> int:
    """The device that holds the storage of `tensor`, -1 for none."""
    if tensor.layout is not torch.strided:
        return -1
    try:
        mark = _storage_of(tensor).__dict__.get("_npu")
    except NotImplementedError:
        return -1
    return mark.ledger.index if mark is not None else -1


def born_since(value: Any, serial: int) -> int:
    """The bytes of the tensors in `value` that were allocated after the allocation `serial`."""
    marks: Dict[int, Allocation] = {}
    _collect_marks(value, marks)
    return sum(mark.nbytes for mark in marks.values() if mark.serial > serial)


def _collect_marks(value: Any, marks: Dict[int, Allocation]) -> None:
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided:
            mark = _storage_of(value).__dict__.get("_npu")
            if mark is not None:
                marks[id(mark)] = mark
    elif isinstance(value, (tuple, list)):
        for item in value:
            _collect_marks(item, marks)


def move(tensor: Any, index: int) -> None:
    """Charge the storage of `tensor` to another device."""
    _storage_of(tensor).__dict__.pop("_npu", None)
    hold(tensor, index)


def resized(storage: Any) -> None:
    """Follow a storage that has been resized."""
    mark = storage.__dict__.pop("_npu", None)
    if mark is not None:
        storage.__dict__["_npu"] = Allocation(mark.ledger, storage.nbytes())
