"""Python runs this at start while the folder is on PYTHONPATH: it makes MindSpore scripts work.

A script that asks MindSpore for `device_target="Ascend"` gets the CPU, with a notice, when simulated
NPUs were asked for. A sitecustomize further down the path runs too, as it would without this one."""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path


def _next_sitecustomize() -> None:
    here = Path(__file__).resolve().parent
    path = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if "JUMAR_SIM_DEVICES" in os.environ:
    import jumar_sim_mindspore

    jumar_sim_mindspore.install()
_next_sitecustomize()
