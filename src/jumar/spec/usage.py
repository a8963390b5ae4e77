"""What jobs and people use, as the API gives it. Times are unix seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCurve:
    """One thing that was measured, at the times of its job's `times`."""

    name: str
    """cpu_cores, memory_gb; of a card: use_pct, memory_gb, temperature_c, power_w."""
    card: str | None = None
    y: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
    """What a job used of its machine, sample by sample; older samples are averages."""

    times: tuple[float, ...]
    curves: tuple[UsageCurve, ...]
    revision: int
    """Changes when there is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedBy:
    """What one user used of one kind, in card-seconds."""

    user: str
    kind: str
    card_s: float
    running_cards: int
