"""Collectives whose results take one more step when gloo is done with them."""

import threading
from typing import Any, List, Optional, Tuple

import torch
import torch.distributed as dist

from torch_npu._sim.tensor import without_functions


class Finishing(dist.distributed_c10d.Work):
    """The work of gloo, after which results are divided and copied to where they belong."""

    def __init__(
        self, works: List[Any], pairs: List[Tuple[Any, Any]], divisor: Optional[int] = None
    ) -> None:
        super().__init__()
        self._works, self._pairs, self._divisor = works, pairs, divisor
        self._results = [result for result, _ in pairs]
        self._finishing = threading.Lock()

    def _finish(self) -> None:
        # A thread of gloo may be at it, for the future: what it has begun is waited for.
        with self._finishing, without_functions(), torch.no_grad():
            pairs, self._pairs = self._pairs, []
            for result, computed in pairs:
                if self._divisor is not None:
                    computed.div_(self._divisor, rounding_mode="trunc")
                if result is not computed:
                    result.copy_(computed)

    def wait(self, timeout: Any = None) -> bool:
        """Wait for all of it."""
        limit = () if timeout is None else (timeout,)
        done = [work.wait(*limit) for work in self._works]
        self._finish()
        return all(done)

    def synchronize(self) -> None:
        """Wait for all of it."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether the results are there."""
        if not all(work.is_completed() for work in self._works):
            return False
        self._finish()
        return True

    def is_success(self) -> bool:
        """Whether it went well."""
        return all(work.is_success() for work in self._works)

    def exception(self) -> Any:
        """What went wrong, if anything did."""
        return next((error for error in (work.exception() for work in self._works) if error), None)

    def get_future(self) -> Any:
        """The future of the results."""

        def finished(done: Any) -> Any:
            # Raises what went wrong with one of them.
            for one in done.value():
                one.value()
            self._finish()
            return self._results

        return torch.futures.collect_all([work.get_future() for work in self._works]).then(finished)
