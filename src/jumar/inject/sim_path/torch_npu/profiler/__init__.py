"""`torch_npu.profiler`: torch's own profiler; a simulated device shows up as the CPU that it is."""

from typing import Any, Dict, Iterable, Optional

import torch
from torch.profiler import ProfilerAction, schedule, tensorboard_trace_handler

__all__ = [
    "AiCMetrics",
    "ExportType",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerLevel",
    "profile",
    "schedule",
    "tensorboard_trace_handler",
]


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


class ExportType:
    """The form of what is written."""

    Text = "text"
    Db = "db"


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
