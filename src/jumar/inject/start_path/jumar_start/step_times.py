"""How long each rank of a training takes from an optimizer's step to the next backward pass, where it works alone:
`steps/rankN.txt`, a line a second.

The time of a whole step says nothing: in the backward pass all ranks wait for the slowest. On a card the time is
that of the host, which is what a rank loses with its data."""

import os
import time
from types import ModuleType
from typing import Any, Callable, List, Optional

from jumar_start.advance import ADVANCE
from jumar_start.beside import quietly
from jumar_start.stopping import is_first

FOLDER = "steps"
_EVERY_S = 1.0


class _Clock:
    """Of this process."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._stepped_at: Optional[float] = None
        self._sum_s = 0.0
        self._count = 0
        self._written_at = time.monotonic()
        self._watches = False

    @quietly
    def after_step(self, *_: Any) -> None:
        """An optimizer has stepped."""
        if not self._watches:
            self._watches = True
            self._watch()
        self._stepped_at = time.monotonic()

    def _watch(self) -> None:
        import torch

        run = torch.autograd.backward

        def backward(*args: Any, **named: Any) -> Any:
            self.before_backward()
            return run(*args, **named)

        torch.autograd.backward = backward

    @quietly
    def before_backward(self) -> None:
        """The first backward pass after a step: until now this rank waited for nobody."""
        if self._stepped_at is None:
            return
        now = time.monotonic()
        self._sum_s += now - self._stepped_at
        self._count += 1
        self._stepped_at = None
        if now - self._written_at >= _EVERY_S:
            line = f"{time.time():.1f} {1e3 * self._sum_s / self._count:.3f} {self._count}\n"
            os.write(self._file, line.encode())
            self._written_at, self._sum_s, self._count = now, 0.0, 0


@quietly
def install(module: ModuleType) -> None:
    """`module`: the one that has torch's `Optimizer`."""
    # Torch before 2.0 has none.
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is None:
        return
    if is_first(os.environ):
        register(_counting())
    rank = os.environ.get("RANK") or os.environ.get("RANK_ID") or ""
    ranks = os.environ.get("WORLD_SIZE") or os.environ.get("RANK_SIZE") or "1"
    if not rank.isdigit() or not ranks.isdigit() or int(ranks) < 2:
        return
    folder = os.path.join(os.environ["JUMAR_JOB_DIR"], FOLDER)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"rank{int(rank)}.txt")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    register(_not_compiled(_Clock(os.open(path, flags, 0o644)).after_step))


def _counting() -> Callable[..., None]:
    """Counts the steps of the optimizer that is the first to step: one of several speaks for all."""
    first: List[int] = []

    def count(optimizer: Any, *_: Any) -> None:
        if not first:
            first.append(id(optimizer))
        if first[0] == id(optimizer):
            ADVANCE.optimized()

    return _not_compiled(count)


def _not_compiled(hook: Callable[..., None]) -> Callable[..., None]:
    """torch.compile does not look into it: else it warns of the clock, and compiles again as the count grows."""

    def called(*args: Any) -> None:
        hook(*args)

    # What torch.compiler.disable does, which takes a second to import.
    called._torchdynamo_disable = True  # type: ignore[attr-defined]
    return called
