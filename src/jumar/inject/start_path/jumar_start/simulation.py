"""Parts of the simulated NPUs that are plain torch, for processes without simulated NPUs."""

import importlib.util
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[2] / "sim_path" / "torch_npu" / "_sim"


def part(name: str) -> Any:
    """Load the module by its file: importing its package would install simulated NPUs."""
    spec: Any = importlib.util.spec_from_file_location(f"jumar_{name}", _FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
