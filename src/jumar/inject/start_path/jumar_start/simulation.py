"""Parts of the simulated NPUs that are plain torch, for processes that have none."""

import importlib.util
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[2] / "sim_path" / "torch_npu" / "_sim"


def part(name: str) -> Any:
    """The module by its file: its package would make NPUs of this process."""
    spec: Any = importlib.util.spec_from_file_location(f"jumar_{name}", _FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
