"""Trouble that lasts is said when it begins, when it changes and when it is over; not every second."""

import logging
import threading
import time


class Trouble:
    """Thread-safe; one for each thing that may go wrong again and again."""

    def __init__(self, log: logging.Logger, over: str) -> None:
        """`over`: what to say when it works again."""
        self._log = log
        self._over = over
        self._lock = threading.Lock()
        self._said: str | None = None
        self._since = 0.0

    def say(self, message: str) -> None:
        """It goes wrong, for this reason."""
        with self._lock:
            if message == self._said:
                return
            if self._said is None:
                self._since = time.monotonic()
            self._said = message
        self._log.error("%s", message)

    def end(self) -> None:
        """It works."""
        if self._said is None:
            return
        with self._lock:
            self._said, lasted_s = None, time.monotonic() - self._since
        self._log.warning("%s after %.0f s", self._over, lasted_s)
