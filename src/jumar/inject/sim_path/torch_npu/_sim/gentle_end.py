"""Ends gloo groups only once their threads are idle.

Tensors are Python objects, so a thread needs the interpreter lock to drop one. Ending a group joins
its threads while holding that lock, and ending the interpreter kills those that wait for it: finished
trainings sometimes hang in the first case and abort in the second.

Uses torch alone: the proof of a port loads this file for originals that run on the CPU."""

import atexit
import functools
import time
from pathlib import Path
from typing import Any

import torch.distributed as dist

_TASKS = Path("/proc/self/task")
_GLOO_THREAD = "pt_gloo_runloop"
_LOOK_S = 0.005
_MOST_LOOKS = 1000


def _let_threads_go() -> None:
    """Wait until gloo's threads have dropped the tensors of the last collective.

    Sleeping releases the interpreter lock: a thread that wanted it runs at once, and one that is idle
    in two checks has nothing left to do."""
    if not dist.is_initialized():
        return
    rested = 0
    for _ in range(_MOST_LOOKS):
        time.sleep(_LOOK_S)
        rested = 0 if _gloo_works() else rested + 1
        if rested == 2:
            return


def _gloo_works() -> bool:
    """Whether a gloo thread is running or runnable."""
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        try:
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has ended
            continue
        if name == _GLOO_THREAD and rest.split()[0] != "S":
            return True
    return False


def _settled(destroy: Any) -> Any:
    @functools.wraps(destroy)
    def destroy_settled(*args: Any, **kwargs: Any) -> Any:
        _let_threads_go()
        return destroy(*args, **kwargs)

    return destroy_settled


def install() -> None:
    """Wait for them before a group or the interpreter ends."""
    module = dist.distributed_c10d
    settled = _settled(module.destroy_process_group)
    module.destroy_process_group = dist.destroy_process_group = settled
    # For scripts that exit without it.
    atexit.register(_let_threads_go)
