"""The memory figures of a device, by the names of the real plug-in."""

import contextlib
import itertools
from typing import Any, Dict, Generator, List, Tuple

from torch_npu._sim import absent
from torch_npu._sim.memory import LEDGERS, Ledger
from torch_npu._sim.refuse import size
from torch_npu.npu.devices import device_index

__all__ = [
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
]

__getattr__ = absent.of_module(__name__)

_HOST_PARTS = ("current", "peak", "allocated", "freed")
_pools = itertools.count(1)


def _ledger(device: Any) -> Ledger:
    try:
        return LEDGERS[device_index(device)]
    except RuntimeError as error:
        raise RuntimeError(f"Invalid device argument {device}: {error}") from None


def memory_allocated(device: Any = None) -> int:
    """Bytes held now."""
    return _ledger(device).allocated


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes held since the start or the last reset."""
    return _ledger(device).peak


def memory_reserved(device: Any = None) -> int:
    """Bytes held or kept for later."""
    return _ledger(device).reserved


def max_memory_reserved(device: Any = None) -> int:
    """The most of them."""
    return _ledger(device).reserved_peak


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def empty_cache() -> None:
    """Free what is cached."""
    for ledger in LEDGERS:
        ledger.empty_cache()


def reset_peak_memory_stats(device: Any = None) -> None:
    """Measure peaks from now on."""
    _ledger(device).reset_peak()


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Count from now on."""
    ledger = _ledger(device)
    ledger.allocations = ledger.frees = ledger.refusals = 0


def mem_get_info(device: Any = None) -> Tuple[int, int]:
    """Free and total bytes."""
    ledger = _ledger(device)
    return max(ledger.limit - ledger.reserved, 0), ledger.limit


def memory_stats(device: Any = None) -> Dict[str, int]:
    """All figures."""
    ledger = _ledger(device)
    figures = {"num_ooms": ledger.refusals, "num_alloc_retries": 0}
    for kind, current, peak in (
        ("allocated_bytes", ledger.allocated, ledger.peak),
        ("active_bytes", ledger.allocated, ledger.peak),
        ("requested_bytes", ledger.allocated, ledger.peak),
        ("reserved_bytes", ledger.reserved, ledger.reserved_peak),
    ):
        figures[f"{kind}.all.current"] = current
        figures[f"{kind}.all.peak"] = peak
    figures["allocation.all.allocated"] = ledger.allocations
    figures["allocation.all.freed"] = ledger.frees
    figures["allocation.all.current"] = ledger.allocations - ledger.frees
    return figures


def _nested(figures: Dict[str, int]) -> Dict[str, Any]:
    nested: Dict[str, Any] = {}
    for name, value in figures.items():
        *path, last = name.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def memory_stats_as_nested_dict(device: Any = None) -> Dict[str, Any]:
    """All figures, by the parts of their names."""
    return _nested(memory_stats(device))


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The figures as text."""
    ledger = _ledger(device)
    return (
        f"NPU {ledger.index} (simulated): {size(ledger.allocated)} allocated, peak {size(ledger.peak)}, "
        f"{size(ledger.reserved)} reserved, {size(ledger.limit)} in all, {ledger.refusals} refusals"
    )


def memory_snapshot(mempool_id: Any = None) -> List[Any]:
    """The blocks of the allocator; a simulated device has none."""
    return []


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Refuse above a share of the memory."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _ledger(device).fraction = fraction


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The share set above."""
    return _ledger(device).fraction


def get_allocator_backend() -> str:
    """Which allocator is in use."""
    return "native"


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Memory for other programs; a simulated device gives none."""
    raise NotImplementedError("simulated NPUs give no raw memory")


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free raw memory."""
    raise NotImplementedError("simulated NPUs give no raw memory")


def empty_virt_addr_cache() -> None:
    """Free address space."""


def host_empty_cache() -> None:
    """Free pinned memory."""


def host_memory_stats() -> Dict[str, int]:
    """The figures of pinned memory; here it is ordinary memory, and none of it is kept."""
    figures = {"num_host_alloc": 0, "num_host_free": 0}
    for kind in ("allocations", "allocated_bytes", "active_requests", "active_bytes"):
        figures.update((f"{kind}.{part}", 0) for part in _HOST_PARTS)
    return figures


def host_memory_stats_as_nested_dict() -> Dict[str, Any]:
    """The same figures, by the parts of their names."""
    return _nested(host_memory_stats())


def reset_peak_host_memory_stats() -> None:
    """Measure peaks of pinned memory from now on."""


def reset_accumulated_host_memory_stats() -> None:
    """Count pinned memory from now on."""


class MemPool:
    """A part of the memory; here all of it is one."""

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False):
        self.allocator = allocator
        self.id = (0, next(_pools))

    def use_count(self) -> int:
        """How many hold it."""
        return 1

    def snapshot(self) -> List[Any]:
        """Its blocks."""
        return memory_snapshot(self.id)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Generator[None, None, None]:
    """Take memory from a pool inside a `with` block."""
    _ledger(device)
    yield
