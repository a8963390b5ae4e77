"""`torch_npu.profiler`: torch's own profiler; a simulated device shows up as the CPU that it is."""

from typing import Any, Callable, Dict, Iterable, Optional, Set

import torch
from torch.profiler import ProfilerAction, schedule, tensorboard_trace_handler

from torch_npu._sim import absent

__all__ = [
    "AiCMetrics",
    "ExportType",
    "HostSystem",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerLevel",
    "profile",
    "schedule",
    "supported_activities",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
    "tensorboard_trace_handler",
]

__getattr__ = absent.of_module(__name__)


class ProfilerActivity:
    """What to record."""

    CPU = torch.profiler.ProfilerActivity.CPU
    NPU = torch.profiler.ProfilerActivity.CPU
    CUDA = torch.profiler.ProfilerActivity.CPU


class ProfilerLevel:
    """How much to record of the chip; nothing here."""

    Level_none = "Level_none"
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"


class AiCMetrics:
    """Counters of the chip; none here."""

    AiCoreNone = "ACL_AICORE_NONE"
    PipeUtilization = "ACL_AICORE_PIPE_UTILIZATION"
    ArithmeticUtilization = "ACL_AICORE_ARITHMETIC_UTILIZATION"
    Memory = "ACL_AICORE_MEMORY_BANDWIDTH"
    MemoryL0 = "ACL_AICORE_L0B_AND_WIDTH"
    MemoryUB = "ACL_AICORE_MEMORY_UB"
    ResourceConflictRatio = "ACL_AICORE_RESOURCE_CONFLICT_RATIO"
    L2Cache = "ACL_AICORE_L2_CACHE"
    MemoryAccess = "ACL_AICORE_MEMORY_ACCESS"


class ExportType:
    """The form of what is written."""

    Text = "text"
    Db = "db"


class HostSystem:
    """What to record of the host; nothing here."""

    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"
    NUMA = "numa"


def _values(kind: Any) -> Set[Any]:
    return {value for name, value in vars(kind).items() if not name.startswith("_")}


def supported_activities() -> Set[Any]:
    """What can be recorded."""
    return _values(ProfilerActivity)


def supported_profiler_level() -> Set[str]:
    """How much can be."""
    return _values(ProfilerLevel)


def supported_ai_core_metrics() -> Set[str]:
    """Which counters can be."""
    return _values(AiCMetrics)


def supported_export_type() -> Set[str]:
    """In which forms it can be written."""
    return _values(ExportType)


class _ExperimentalConfig:  # pyright: ignore[reportUnusedClass]  # a name of the real one
    def __init__(self, **options: Any) -> None:
        self.options: Dict[str, Any] = options


class profile(torch.profiler.profile):
    """See torch.profiler.profile."""

    def __init__(
        self,
        *,
        activities: Optional[Iterable[Any]] = None,
        experimental_config: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activities=None if activities is None else set(activities), **kwargs)

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Name the trace by what a function returns."""
        self._trace_id = callback

    def get_trace_id(self) -> str:
        """The name of the trace; empty without such a function."""
        name: Optional[Callable[[], str]] = getattr(self, "_trace_id", None)
        return "" if name is None else name()

    @classmethod
    def enable_profiler_in_child_thread(cls, *args: Any, **kwargs: Any) -> None:
        """Record this thread too; torch's own profiler records all."""

    @classmethod
    def disable_profiler_in_child_thread(cls) -> None:
        """The opposite."""
