"""Runs a CUDA script on NPUs without editing it: `python -m jumar.inject.autoport train.py …`.

Imports torch_npu (the real one, or the simulated one where it is on the path) and its
`transfer_to_npu` first, then runs the script as `python train.py …` would. Where there is no
torch_npu the script runs as it is, with a word on stderr."""

import importlib
import importlib.util
import os
import runpy
import sys
import warnings
from typing import List, Optional

_USAGE = "usage: python -m jumar.inject.autoport [-m MODULE | SCRIPT] [ARGUMENT …]"


def transfer() -> bool:
    """Make CUDA calls go to the NPUs; false where there is no plug-in to do it."""
    if importlib.util.find_spec("torch_npu") is None:
        return False
    with warnings.catch_warnings():
        # The plug-in announces each function that it replaces.
        warnings.simplefilter("ignore")
        importlib.import_module("torch_npu")
        importlib.import_module("torch_npu.contrib.transfer_to_npu")
    return True


def run(arguments: List[str]) -> None:
    """Run a script or a module as `__main__`."""
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = list(arguments)
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


def main(arguments: Optional[List[str]] = None) -> int:
    """Transfer, then run."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given == ["-m"] or given[0] in ("-h", "--help"):
        sys.stderr.write(_USAGE + "\n")
        return 0 if given and given[0] in ("-h", "--help") else 2
    if given[0] != "-m" and not os.path.exists(given[0]):
        sys.stderr.write(f"autoport: there is no file {given[0]}\n")
        return 2
    if not transfer():
        sys.stderr.write("autoport: there is no torch_npu here, so the script runs as it is\n")
    run(given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
