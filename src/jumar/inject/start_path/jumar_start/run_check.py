"""`mindspore.run_check()` at the start of a training, so that its log says first whether MindSpore works here.

In a process of its own: the check chooses a device, which the script may want to do differently."""

import os
import subprocess
import sys
from types import ModuleType

from jumar_start.beside import quietly

VARIABLE = "JUMAR_RUN_CHECK"
_CHECK = "import mindspore; getattr(mindspore, 'run_check', lambda: print('MindSpore', mindspore.__version__))()"
_RANKS = ("RANK_ID", "RANK")
_LIMIT_S = 300


@quietly
def install(module: ModuleType) -> None:
    """MindSpore was just imported; whatever the check finds, the script goes on."""
    # Processes that the script starts have it checked already.
    os.environ.pop(VARIABLE, None)
    if any(os.environ.get(name, "0") != "0" for name in _RANKS):
        return
    sys.stdout.flush()
    subprocess.run([sys.executable, "-c", _CHECK], stderr=subprocess.STDOUT, timeout=_LIMIT_S)
