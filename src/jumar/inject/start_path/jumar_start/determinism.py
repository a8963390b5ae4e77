"""Repeatable runs: random numbers begin alike, and libraries take operators that add in one order.

Where an operator has no such form torch says so in the log, and goes on."""

import random
import sys
from typing import Any

from jumar_start.after_import import after_import

_SEED = 0


def install() -> None:
    """Now for Python itself, later for each library when it is imported."""
    random.seed(_SEED)
    for name, then in (
        ("numpy", _numpy),
        ("torch", _torch),
        ("torch_npu", _torch_npu),
        ("mindspore", _mindspore),
    ):
        after_import(name, then)


def _numpy() -> None:
    sys.modules["numpy"].random.seed(_SEED)


def _torch() -> None:
    torch: Any = sys.modules["torch"]
    torch.manual_seed(_SEED)
    # Older ones cannot warn, and a training that ends is worse than one that differs.
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version >= (1, 11):
        torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def _torch_npu() -> None:
    sys.modules["torch_npu"].npu.manual_seed_all(_SEED)


def _mindspore() -> None:
    mindspore: Any = sys.modules["mindspore"]
    mindspore.set_seed(_SEED)
    mindspore.set_context(deterministic="ON")
