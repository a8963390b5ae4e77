"""Python runs this at startup while the folder is on PYTHONPATH: it makes MindSpore scripts work.

With simulated NPUs, a script that asks MindSpore for `device_target="Ascend"` gets the CPU and a
notice. A sitecustomize further down the path still runs."""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path


def _next_sitecustomize() -> None:
    here = Path(__file__).resolve().parent
    entries = [Path(entry or ".").resolve() for entry in sys.path]
    # Those before this one have already run.
    behind = sys.path[entries.index(here) + 1 :] if here in entries else []
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", behind)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if "JUMAR_SIM_DEVICES" in os.environ:
    import jumar_sim_mindspore

    jumar_sim_mindspore.install()
_next_sitecustomize()
