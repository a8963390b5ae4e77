"""Maintenance: for a while no job is started."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """No job starts. Times are unix seconds."""

    since: float
    until: float | None = None
    """When jobs start again; None: when somebody says so."""
    by: str = ""
    why: str = ""
    requeue: bool = False
    """Whether running jobs are asked to save and go back in line."""
    sweep: bool = False
    """Whether it is the nightly sweep that asks them: it wants cards, so jobs without one run on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """How far a drain is."""

    drain: Drain | None
    """None: jobs start as usual."""
    running: int
    """Jobs that still hold cards."""
