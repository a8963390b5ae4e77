"""The platform's knowledge of complete and torn checkpoints, inside of the job: `jumar.launch.complete`,
loaded from its folder, since the user's Python has no jumar."""

import importlib.util
import os
import sys
from typing import Any

_NAME = "jumar_complete"


def checkpoints() -> Any:
    """The package."""
    if _NAME in sys.modules:
        return sys.modules[_NAME]
    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.join(
        os.path.dirname(os.path.dirname(os.path.dirname(here))), "launch", "complete"
    )
    spec = importlib.util.spec_from_file_location(
        _NAME, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} holds no package")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_NAME]
        raise
    return module
