"""Makes CUDA calls go to the NPUs, through the plug-in's own `transfer_to_npu`.

Newer plug-ins do it when TORCH_TRANSFER_TO_NPU is set; this works with every one of them."""

import importlib
import importlib.util
import sys
import warnings

from jumar_start.after_import import after_import

NO_PLUGIN = "jumar: torch_npu is not installed, so the script runs unchanged\n"


def transfer() -> bool:
    """Make CUDA calls go to the NPUs; false if there is no plug-in to do it."""
    if importlib.util.find_spec("torch_npu") is None:
        return False
    with warnings.catch_warnings():
        # The plug-in announces each function that it replaces.
        warnings.simplefilter("ignore")
        importlib.import_module("torch_npu")
        importlib.import_module("torch_npu.contrib.transfer_to_npu")
    return True


def _transfer_or_tell() -> None:
    if not transfer():
        sys.stderr.write(NO_PLUGIN)


def install() -> None:
    """Do it as soon as torch is imported."""
    after_import("torch", _transfer_or_tell)
