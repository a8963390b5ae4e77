"""Kernels registered with torch's dispatcher; they stay for the life of the process."""

from typing import Any

from torch import library

# Torch unregisters kernels when the object that registered them is dropped.
_aten = library.Library("aten", "IMPL")
_every = library.Library("_", "IMPL")


def register(name: str, kernel: Any, key: str) -> None:
    """Let `kernel` compute the operator `name` of aten for this dispatch key."""
    _aten.impl(name, kernel, key)


def fall_through(key: str) -> None:
    """Let operators without a kernel for this dispatch key go on to the next key."""
    _every.fallback(library.fallthrough_kernel, key)
