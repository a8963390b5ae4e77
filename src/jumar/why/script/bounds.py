"""Little time for a script: whoever wrote it may have made it to hold up its reader, and the log tells something without it."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

MOST_CPU_S = 4
"""For all checks of one fault."""


class TakesTooLong(Exception):
    """The time for a script is over."""


@contextmanager
def bounded(cpu_s: float = MOST_CPU_S) -> Generator[None]:
    """TakesTooLong in what is done inside once it has used so much time; only the main thread can be stopped so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _stop(number: int, frame: FrameType | None) -> None:
    raise TakesTooLong
