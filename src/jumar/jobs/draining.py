"""A server that starts no jobs for a while: before maintenance, or while a site wants its cards free.

It is kept in a file of the home, so that a server that starts in the middle of it keeps to it."""

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jumar.errors import BadInput
from jumar.spec.draining import Drain
from jumar.spec.text import storable
from jumar.wholefile import write_whole

log = logging.getLogger(__name__)
MAINTENANCE = "maintenance"
SWEEP = "sweep"
"""What a job makes room for that is asked to leave by a drain; no ids of jobs."""
_LONGEST_S = 366 * 86_400


class Draining:
    """Thread-safe."""

    def __init__(self, path: Path, on_change: Callable[[], None]) -> None:
        self._path = path
        self._on_change = on_change
        self._lock = threading.Lock()
        self.last: Drain | None = _read(path)
        """What was said last, if it was not ended; it may be over by now."""

    def now(self) -> Drain | None:
        """The drain that is on, if one is."""
        drain = self.last
        if drain is None or (drain.until is not None and drain.until <= time.time()):
            return None
        return drain

    def begin(
        self,
        *,
        by: str,
        why: str = "",
        until: float | None = None,
        requeue: bool = False,
        sweep: bool = False,
    ) -> None:
        """Start no more jobs. What is said again replaces what was said before."""
        now = time.time()
        if until is not None and not now < until <= now + _LONGEST_S:
            raise BadInput("the end of a drain must be in the future, within a year")
        with self._lock:
            before = self.now()
            made = Drain(
                since=now if before is None else before.since,
                until=until,
                by=by,
                why=storable(why),
                requeue=requeue,
                sweep=sweep,
            )
            write_whole(self._path, json.dumps(asdict(made)) + "\n", private=True)
            self.last = made
        log.info("no jobs are started: %s", why or by)
        self._on_change()

    def end(self) -> None:
        """Start jobs again."""
        with self._lock:
            self._path.unlink(missing_ok=True)
            self.last = None
        self._on_change()


def _read(path: Path) -> Drain | None:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    try:
        values: dict[str, Any] = json.loads(text)
        until = values["until"]
        return Drain(
            since=float(values["since"]),
            until=None if until is None else float(until),
            by=str(values["by"]),
            why=str(values["why"]),
            requeue=bool(values["requeue"]),
            # One that an older jumar wrote does not say.
            sweep=bool(values.get("sweep", values["by"] == SWEEP)),
        )
    except (ValueError, KeyError, TypeError) as error:
        # Somebody wanted the cards free; that it is not readable why does not change that.
        log.warning("%s is damaged (%s); jobs wait until the drain is ended", path, error)
        return Drain(since=time.time(), why=f"{path.name} is damaged")
