"""One answer for all ranks of torch.distributed to the question whether to stop."""

import sys
import time
from typing import Any, Optional

_EVERY_S = 1.0
_MOST_STEPS = 1000
_DEVICES = {"nccl": "cuda", "hccl": "npu"}


def group() -> Any:
    """torch.distributed where it connects this process with others, else None."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed if distributed.get_world_size() > 1 else None


class Agreement:
    """All ranks ask equally often. They talk about once a second, since each talk waits for the devices; after
    how many questions the next one comes is part of what they say."""

    def __init__(self) -> None:
        self._left = 1
        self._every = 1
        self._last: Optional[float] = None
        self._is_agreed = False

    def any_asked(self, asked: bool) -> bool:
        """Whether one of the ranks was asked to stop."""
        distributed = group()
        if distributed is None:
            return asked
        self._left -= 1
        if self._left > 0 or self._is_agreed:
            return self._is_agreed
        import torch

        device = _DEVICES.get(str(distributed.get_backend()).split(":")[-1], "cpu")
        said = torch.tensor([int(asked), self._wanted()], device=device)
        distributed.all_reduce(said, op=distributed.ReduceOp.MAX)
        self._is_agreed, self._every = bool(said[0].item()), int(said[1].item())
        self._left = self._every
        return self._is_agreed

    def _wanted(self) -> int:
        now = time.monotonic()
        last, self._last = self._last, now
        if last is None:
            return 1
        return max(
            1,
            min(_MOST_STEPS, 2 * self._every, int(self._every * _EVERY_S / max(now - last, 1e-6))),
        )
