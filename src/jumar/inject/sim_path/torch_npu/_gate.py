"""Lets a real plug-in through if no simulated devices are requested."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_OUR_FOLDER = Path(__file__).resolve().parent.parent


def real_plugin() -> ModuleType:
    """Import the torch_npu that comes after this one on the path."""
    path = [entry for entry in sys.path if Path(entry or ".").resolve() != _OUR_FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("torch_npu", path)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(
            "No module named 'torch_npu' (for simulated NPUs set JUMAR_SIM_DEVICES, "
            "or run: jumar try -- python train.py)",
            name="torch_npu",
        )
    sys.path[:] = path
    for name in [name for name in sys.modules if name.startswith("torch_npu.")]:
        del sys.modules[name]
    module = importlib.util.module_from_spec(spec)
    sys.modules["torch_npu"] = module
    spec.loader.exec_module(module)
    return sys.modules["torch_npu"]
