"""Ends a trial after a number of optimizer steps or seconds, cleanly and successfully."""

import atexit
import logging
import os
import sys
import time
from typing import Any

import torch.distributed as dist

from torch_npu._sim.place import SETTINGS
from torch_npu._sim.record import RECORD

logger = logging.getLogger("torch_npu")


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    RECORD.steps += 1
    if SETTINGS.steps and RECORD.steps >= SETTINGS.steps:
        _stop(f"{RECORD.steps} steps")
    elapsed_s = time.time() - RECORD.started
    if SETTINGS.time_s and elapsed_s >= SETTINGS.time_s:
        _stop(f"{elapsed_s:.0f} s")


def _stop(reached: str) -> None:
    logger.warning("the trial ends here: %s were requested", reached)
    if dist.is_available() and dist.is_initialized():
        _leave()
    raise SystemExit(0)


def _leave() -> None:
    """End a process that is in a group, whose threads sometimes abort while Python shuts down."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def install() -> None:
    """Count the steps of every optimizer."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(_after_step)
