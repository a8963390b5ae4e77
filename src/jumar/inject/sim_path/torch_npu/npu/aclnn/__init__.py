"""The kernel library of the chip: its one switch, stored and returned."""

import warnings

__all__ = ["allow_hf32", "version"]

allow_hf32 = True


def version() -> None:
    """None, as on a real NPU."""
    warnings.warn("torch.npu.aclnn.version isn't implemented!", stacklevel=2)
