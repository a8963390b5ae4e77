"""A stand-in for the Ascend plug-in of PyTorch, with simulated devices computed by the host.

It is on the path only where simulated NPUs were asked for (JUMAR_SIM_DEVICES). Without that, a real
plug-in further down the path is imported instead."""

import os
import sys
from typing import NoReturn


# Defined first: where the script imports us before torch, torch asks for it in the midst of this.
def _autoload() -> None:  # pyright: ignore[reportUnusedFunction]  # torch calls it
    """What torch calls for a backend that it finds installed; importing was all."""


if "JUMAR_SIM_DEVICES" not in os.environ:
    from torch_npu import _gate

    sys.modules["torch_npu"] = _gate.real_plugin()
else:
    from torch_npu._sim import start

    start.install()

    from torch_npu import npu, optim, profiler
    from torch_npu._sim import absent
    from torch_npu._sim.start import VERSION as __version__
    from torch_npu.ops import *  # noqa: F403

    start.finish()

    def __getattr__(name: str) -> NoReturn:
        absent.refuse(name)

    __all__ = ["__version__", "npu", "optim", "profiler"]
