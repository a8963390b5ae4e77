"""Makes libfaketime fit for Python: its `clock_nanosleep` refuses the sleep of Python 3.11 and later.

On PYTHONPATH only where libfaketime is loaded: in the platform of a self-test."""

import select
import time


def _sleep(seconds: float, /) -> None:
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    select.select((), (), (), seconds)


time.sleep = _sleep
