"""The environment of a process with simulated NPUs.

A job or a command gets these variables and one entry at the front of PYTHONPATH; nothing else is
needed, and without them nothing of this is ever imported."""

from pathlib import Path
from typing import Dict, Mapping, Optional

from jumar.inject.starting import first_on_path

SIM_PATH = Path(__file__).resolve().parent / "sim_path"
MODES = ("warn", "strict", "fast")


def environment(
    environ: Mapping[str, str],
    *,
    devices: int = 8,
    mode: Optional[str] = None,
    report: Optional[Path] = None,
    steps: int = 0,
    time_s: float = 0,
) -> Dict[str, str]:
    """`environ` with simulated NPUs; options that are not given keep their values."""
    changed = first_on_path(environ, SIM_PATH)
    changed["JUMAR_SIM_DEVICES"] = str(devices)
    if mode is not None:
        changed["JUMAR_SIM_MODE"] = mode
    if report is not None:
        changed["JUMAR_SIM_REPORT"] = str(report)
    if steps:
        changed["JUMAR_SIM_STEPS"] = str(steps)
    if time_s:
        changed["JUMAR_SIM_TIME_S"] = str(time_s)
    return changed
