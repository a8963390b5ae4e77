"""Trying again: waits that double, with a limit on the whole."""

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from jumar.errors import JumarError
from jumar.store.errors import Damaged, StoreAway

logger = logging.getLogger(__name__)
T = TypeVar("T")
QUIET_S = 60.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a store that is away is waited for, and how often damaged bytes are fetched again."""

    limit_s: float = 120.0
    first_s: float = 0.2
    longest_s: float = 8.0
    damaged_tries: int = 4


class Teller:
    """Says that something is tried again: once, though dozens of threads ask one server, and often."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._quiet_until = dict[type[JumarError], float]()
        self._told_away_at: float | None = None
        self.away: str | None = None
        """What is known of a store that is waited for now."""

    def tell(self, error: JumarError, limit_s: float) -> None:
        """A line in the log, unless it was told already that the store is away, or a minute ago."""
        now = time.monotonic()
        with self._lock:
            was_away = self.away is not None
            if isinstance(error, StoreAway):
                self.away = error.message
            is_known = was_away and isinstance(error, StoreAway)
            if is_known or now < self._quiet_until.get(type(error), now):
                return
            # A store may be away for each second request, for hours.
            self._quiet_until[type(error)] = now + QUIET_S
            if isinstance(error, StoreAway):
                self._told_away_at = now
        logger.warning("%s; trying again for up to %.0f s", error, limit_s)

    def answered(self) -> None:
        """The store has answered; told when it was told that it was away."""
        if self.away is None:
            return
        with self._lock:
            self.away, told_at, self._told_away_at = None, self._told_away_at, None
        if told_at is not None:
            logger.info("the store answers again, after %.0f s", time.monotonic() - told_at)


_teller = Teller()


def store_away() -> str | None:
    """Why some thread of this process waits for a store; None while all of them answer."""
    return _teller.away


def patiently(
    action: Callable[[], T],
    patience: Patience,
    what: str,
    stop: threading.Event | None = None,
) -> T:
    """`action()`, again and again while the store is away or what comes is damaged."""
    began, pause_s, damaged = time.monotonic(), patience.first_s, 0
    while True:
        try:
            done = action()
        except (StoreAway, Damaged) as error:
            damaged += isinstance(error, Damaged)
            over = time.monotonic() - began + pause_s > patience.limit_s
            if over or damaged >= patience.damaged_tries or (stop is not None and stop.is_set()):
                raise
            _teller.tell(error, patience.limit_s)
        else:
            _teller.answered()
            return done
        wait_s = pause_s * random.uniform(0.8, 1.2)
        if stop is None:
            time.sleep(wait_s)
        elif stop.wait(wait_s):
            raise StoreAway(f"{what}: stopped while waiting for the store")
        pause_s = min(pause_s * 2, patience.longest_s)
