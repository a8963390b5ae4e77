"""Trouble that lasts is said when it begins, when it changes and when it is over, not every second."""

import logging
import threading


class Complaints:
    """What is in the way of whom; thread-safe."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._said: dict[str, str] = {}

    def say(self, who: str, trouble: object) -> None:
        """Log it, unless that was the last thing said of `who`."""
        words = str(trouble)
        with self._lock:
            is_new = self._said.get(who) != words
            self._said[who] = words
        if is_new:
            self._log.warning("%s: %s; tried again until it works", who, words)

    def over(self, who: str) -> None:
        """It works again."""
        with self._lock:
            was_said = self._said.pop(who, None) is not None
        if was_said:
            self._log.info("%s: works again", who)
