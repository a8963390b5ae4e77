"""Runs that can be repeated: what the libraries must be told, and seeds for a script that sets none. What a
script sets itself comes later, and counts."""

import random
import sys

from jumar_start.after_import import after_import

_SEED = 0


def install() -> None:
    """Wait for the libraries."""
    random.seed(_SEED)
    after_import("numpy", _numpy)
    after_import("torch", _torch)
    after_import("torch_npu", _torch_npu)
    after_import("mindspore", _mindspore)


def _numpy() -> None:
    sys.modules["numpy"].random.seed(_SEED)


def _torch() -> None:
    torch = sys.modules["torch"]
    torch.manual_seed(_SEED)
    # What cannot be repeated is told by a warning of torch that names it: a training that stops in the
    # middle because of it would be no better. Older ones cannot warn.
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version >= (1, 11):
        torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True


def _torch_npu() -> None:
    sys.modules["torch_npu"].npu.manual_seed_all(_SEED)


def _mindspore() -> None:
    mindspore = sys.modules["mindspore"]
    mindspore.set_seed(_SEED)
    if hasattr(mindspore, "set_deterministic"):
        mindspore.set_deterministic(True)
    else:
        mindspore.set_context(deterministic="ON")
