"""A stand-in for PyTorch's Ascend plug-in, with simulated devices computed by the host.

It is on the path only when simulated NPUs are requested (JUMAR_SIM_DEVICES). Otherwise a real plug-in
further down the path is imported instead."""

import os
import sys


# Defined first: if the script imports us before torch, torch asks for it during this import.
def _autoload() -> None:  # pyright: ignore[reportUnusedFunction]  # torch calls it
    """Torch calls this for an installed backend; importing it was enough."""


if "JUMAR_SIM_DEVICES" not in os.environ:
    from torch_npu import _gate

    sys.modules["torch_npu"] = _gate.real_plugin()
else:
    from torch_npu._sim import start

    start.install()

    from torch_npu import npu, optim, profiler
    from torch_npu._sim import absent
    from torch_npu._sim.formats import Format
    from torch_npu._sim.start import VERSION as __version__
    from torch_npu.npu.utils import erase_stream
    from torch_npu.ops import *  # noqa: F403

    start.finish()

    __getattr__ = absent.of_module("torch_npu")

    __all__ = ["Format", "__version__", "erase_stream", "npu", "optim", "profiler"]
