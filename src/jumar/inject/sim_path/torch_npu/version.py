"""The version of the plug-in that this one stands in for."""

from torch_npu._sim.start import VERSION as __version__

__all__ = ["__version__", "git_version"]

git_version = "simulated"
