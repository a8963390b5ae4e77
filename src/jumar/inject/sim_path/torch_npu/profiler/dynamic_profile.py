"""Profiling that is switched on while a job runs, by a file that it watches; here nothing watches it."""

from typing import Any, Dict, Optional

__all__ = ["init", "set_state", "start", "step"]


def init(path: str) -> None:
    """Watch the configuration in a folder."""


def step() -> None:
    """A training step has ended."""


def start(config_path: Optional[str] = None) -> None:
    """Profile from the next step on."""


def set_state(state_step: Dict[str, Any]) -> None:
    """Say which step the job is at."""
