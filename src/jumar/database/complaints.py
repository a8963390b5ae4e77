"""Trouble that lasts is said when it begins, when it changes and when it is over, not every second."""

import logging
import threading
import time

_FIT_S = 1.5
_MOST_KEPT = 1000
_FORGET_S = 60.0


class Complaints:
    """What is in the way of whom; thread-safe."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._lock = threading.Lock()
        self.said: dict[str, tuple[str, float]] = {}
        """By whom: the last words, and when. Where it is empty, nothing can be over."""

    def say(self, who: str, trouble: object) -> None:
        """Log it, unless that was the last thing said of `who`."""
        words, now = " ".join(str(trouble).split()), time.monotonic()
        with self._lock:
            is_new = who not in self.said or self.said[who][0] != words
            self.said[who] = (words, now)
            if len(self.said) > _MOST_KEPT:
                # Jobs end, and nobody says any more that their trouble is over.
                self.said = {k: v for k, v in self.said.items() if now - v[1] < _FORGET_S}
        if is_new:
            self._log.warning("%s: %s; tried again until it works", who, words)

    def over(self, who: str) -> None:
        """It works; said once it has for a moment, since trouble comes in fits."""
        with self._lock:
            if who not in self.said or time.monotonic() - self.said[who][1] < _FIT_S:
                return
            del self.said[who]
        self._log.info("%s: works again", who)
