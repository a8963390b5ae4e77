"""The state of every source of random numbers that this process uses."""

import random
import sys
from typing import Any, Dict


def state() -> Dict[str, Any]:
    """Of Python, and of numpy, torch and its devices where they are imported."""
    found: Dict[str, Any] = {"python": random.getstate()}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        found["numpy"] = numpy.random.get_state()
    if torch is not None:
        found["torch"] = torch.get_rng_state().numpy().tobytes()
        for kind in ("cuda", "npu"):
            device = getattr(torch, kind, None)
            if device is not None and device.is_available() and device.is_initialized():
                found[kind] = device.get_rng_state().cpu().numpy().tobytes()
    return found


def restore(found: Dict[str, Any]) -> None:
    """Set what `state` gave; libraries that it knows are imported."""
    random.setstate(found["python"])
    if "numpy" in found:
        import numpy

        numpy.random.set_state(found["numpy"])
    if "torch" in found:
        import torch

        torch.set_rng_state(_bytes(torch, found["torch"]))
        for kind in ("cuda", "npu"):
            device = getattr(torch, kind, None)
            if kind in found and device is not None and device.is_available():
                device.set_rng_state(_bytes(torch, found[kind]))


def _bytes(torch: Any, data: bytes) -> Any:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).clone()
