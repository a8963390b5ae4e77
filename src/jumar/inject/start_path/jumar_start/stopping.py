"""Whether the platform has asked this process to save and leave."""

import os
import signal
import threading
import time
from typing import Any, Callable, List, Mapping, Union

AGAIN = 75
"""The exit code that means: saved, run me again."""

_ROUNDED_S = 1.0
"""The deadline is told in whole seconds. Who asks knows it exactly: SIGTERM is to be first, so that an attempt that
ends now has reached its limit, and did not leave by itself."""

_Handler = Union[Callable[[int, Any], Any], int, None]


def is_first(environ: Mapping[str, str]) -> bool:
    """Whether this is the rank that writes what is written once."""
    return rank(environ) == 0


def rank(environ: Mapping[str, str]) -> int:
    """Of this process among all."""
    return _number(environ, ("RANK", "RANK_ID"), 0)


def world(environ: Mapping[str, str]) -> int:
    """How many ranks there are."""
    return _number(environ, ("WORLD_SIZE", "RANK_SIZE"), 1)


def _number(environ: Mapping[str, str], names: "tuple[str, ...]", otherwise: int) -> int:
    return next(
        (int(environ[name]) for name in names if environ.get(name, "").isdigit()), otherwise
    )


class Stopping:
    """Asked by SIGTERM, by the stop file, or by the clock."""

    def __init__(self) -> None:
        self._file = os.environ.get("JUMAR_STOP_FILE", "")
        self._ask_at = _ask_at(os.environ)
        self._is_heard = False
        self._before: List[_Handler] = []

    def listen(self) -> None:
        """Hear SIGTERM from now on, where that is possible; twice is once."""
        if threading.current_thread() is not threading.main_thread():
            return
        current = signal.getsignal(signal.SIGTERM)
        if current != self._hear:
            self._before = [current]
            signal.signal(signal.SIGTERM, self._hear)

    def asked(self) -> bool:
        """Whether to save and leave."""
        if self._is_heard or time.time() >= self._ask_at:
            return True
        return bool(self._file) and os.path.exists(self._file)

    def _hear(self, number: int, frame: Any) -> None:
        self._is_heard = True
        for before in self._before:
            if callable(before):
                before(number, frame)


def _ask_at(environ: Mapping[str, str]) -> float:
    try:
        deadline = float(environ["JUMAR_DEADLINE"])
        grace_s = float(environ.get("JUMAR_GRACE_S") or 0)
        return deadline - grace_s + min(_ROUNDED_S, grace_s)
    except (KeyError, ValueError):
        return float("inf")
