"""Extras of the plug-in: modules and functions in forms that suit the chip, and `transfer_to_npu`."""

import importlib
from typing import Any

from torch_npu._sim import absent

_PARTS = ("function", "module")
_absent_name = absent.of_module(__name__)


def __getattr__(name: str) -> Any:
    # Not imported with the package: who only wants `transfer_to_npu` needs none of them.
    if not name.startswith("_") and name not in _PARTS:
        for part in _PARTS:
            module = importlib.import_module(f"{__name__}.{part}")
            if name in module.__all__:
                return getattr(module, name)
    return _absent_name(name)
