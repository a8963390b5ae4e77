"""The environment of a process that shall see simulated NPUs.

A job or a command gets these variables and one entry at the front of PYTHONPATH; nothing else is
needed, and without them nothing of this is ever imported."""

import os
from pathlib import Path
from typing import Dict, Mapping, Optional

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
    """`environ` with simulated NPUs; what is not given keeps the value that it has there."""
    changed = dict(environ)
    before = environ.get("PYTHONPATH", "")
    entries = [entry for entry in before.split(os.pathsep) if entry and entry != str(SIM_PATH)]
    changed["PYTHONPATH"] = os.pathsep.join([str(SIM_PATH), *entries])
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
