"""Retries with doubling waits and a limit on the total time."""

import logging
import random
import threading
import time
from dataclasses import dataclass
from typing import Callable, Dict, NamedTuple, Optional, TypeVar

T = TypeVar("T")
QUIET_S = 60.0
_WAITED_FOR = "waited_for"


@dataclass(frozen=True)
class Patience:
    """How long to wait for a store that is away, and how often to fetch damaged bytes again."""

    limit_s: float = 120.0
    first_s: float = 0.2
    longest_s: float = 8.0
    damaged_tries: int = 4


class Trouble(NamedTuple):
    """An error after which trying again may help."""

    text: str
    away: bool
    """The store is away; otherwise the bytes arrived damaged."""
    wait_s: float = 0.0
    """How long the store asks us to wait."""


class Retry:
    """Retries for all threads of a process. Logs once, even when dozens of threads ask one server."""

    def __init__(
        self, trouble_of: Callable[[Exception], Optional[Trouble]], logger: logging.Logger
    ) -> None:
        self._trouble_of = trouble_of
        self._logger = logger
        self._lock = threading.Lock()
        self._quiet_until: Dict[bool, float] = {}
        self._told_away_at: Optional[float] = None
        self.away: Optional[str] = None
        """Why some thread is waiting for a store now."""

    def __call__(
        self,
        action: Callable[[], T],
        patience: Patience,
        stop: Optional[threading.Event] = None,
    ) -> T:
        """`action()`, repeated while the store is away or bytes arrive damaged."""
        began, pause_s, damaged = time.monotonic(), patience.first_s, 0
        while True:
            try:
                done = action()
            except Exception as error:
                trouble = self._trouble_of(error)
                # Where one waits within another's wait, both would wait twice as long as they say.
                if trouble is None or vars(error).get(_WAITED_FOR):
                    raise
                damaged += not trouble.away
                pause_s = max(pause_s, trouble.wait_s)
                over = (
                    time.monotonic() - began + pause_s > patience.limit_s
                    or damaged >= patience.damaged_tries
                    or (stop is not None and stop.is_set())
                )
                if not over:
                    self._tell(trouble, patience.limit_s)
                    over = _is_stopped_within(pause_s * random.uniform(0.8, 1.2), stop)
                if over:
                    vars(error)[_WAITED_FOR] = trouble.away
                    raise
            else:
                self._answered()
                return done
            pause_s = min(pause_s * 2, patience.longest_s)

    def _tell(self, trouble: Trouble, limit_s: float) -> None:
        """Log it, unless the store is known to be away or it was logged within the last minute."""
        now = time.monotonic()
        with self._lock:
            is_known = trouble.away and self.away is not None
            if trouble.away:
                self.away = trouble.text
            if is_known or now < self._quiet_until.get(trouble.away, now):
                return
            # A store may be away for every second request, for hours.
            self._quiet_until[trouble.away] = now + QUIET_S
            if trouble.away:
                self._told_away_at = now
        self._logger.warning("%s; trying again for up to %.0f s", trouble.text, limit_s)

    def _answered(self) -> None:
        if self.away is None:
            return
        with self._lock:
            self.away, told_at, self._told_away_at = None, self._told_away_at, None
        if told_at is not None:
            seconds = time.monotonic() - told_at
            self._logger.info("the store answers again after %.0f s", seconds)


def _is_stopped_within(seconds: float, stop: Optional[threading.Event]) -> bool:
    if stop is not None:
        return stop.wait(seconds)
    time.sleep(seconds)
    return False
