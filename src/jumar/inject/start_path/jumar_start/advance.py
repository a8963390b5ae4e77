"""How far this attempt has come: `steps/attempt-N.json`, written over and over by the first rank.

What it costs to go on after a fault is told by it: when the first new step was made, and how many steps of the
attempt before are made again. A page of a file, so that a process that is killed has still told its last step."""

import json
import os
import time
from typing import Any, Dict, Optional

from jumar_start.beside import quietly
from jumar_start.stopping import is_first

FOLDER = "steps"
_BYTES = 1024
_MOST_COUNTERS = 8
_EVERY_S = 0.02
"""Steps that nobody numbers may follow each other within microseconds."""


class Advance:
    """Of this process. Who counts steps has a name: a script may train several times."""

    def __init__(self) -> None:
        self._file: Optional[int] = None
        self._is_told = True
        self._first_at: Optional[float] = None
        self._resumed: Dict[str, int] = {}
        self._counter: Optional[str] = None
        self._step = 0
        self._since = 0
        self._made = 0
        self._unsaved = 0
        self._saved: Optional[str] = None
        self._told_at = 0.0

    @quietly
    def resumed(self, counter: str, step: int) -> None:
        """The counter goes on from this step; from 0 where there was nothing to go on from."""
        if len(self._resumed) < _MOST_COUNTERS:
            self._resumed[counter] = step
        self._tell()

    @quietly
    def stepped(self, counter: str, step: int) -> None:
        """The counter has come to this step."""
        # A loop that saves mostly asks afterwards, in the same turn, whether to stop.
        self._counter, self._step, self._since = counter, step, -1
        self._begin()
        self._tell()

    @quietly
    def passed(self, counter: str) -> None:
        """One more turn of a loop whose number nobody says."""
        if self._counter != counter:
            self._counter, self._step = counter, self._resumed.get(counter, 0)
            self._since = 0
        self._since += 1
        self._begin()
        self._tell()

    @quietly
    def optimized(self) -> None:
        """An optimizer has stepped."""
        self._made += 1
        self._unsaved += 1
        self._begin()
        if self._counter is None and time.monotonic() - self._told_at >= _EVERY_S:
            self._tell()

    @quietly
    def saved(self, path: str) -> None:
        """A file was written whole."""
        self._unsaved, self._saved = 0, path
        if self._counter is None:
            self._tell()

    def _begin(self) -> None:
        if self._first_at is None:
            self._first_at = time.time()

    def _tell(self) -> None:
        if not self._is_told:
            return
        if self._file is None:
            self._file = _opened()
            self._is_told = self._file is not None
            if self._file is None:
                return
        told: Dict[str, Any] = {
            "first_at": self._first_at,
            "resumed": self._resumed,
            "counter": self._counter,
            "step": self._step,
            "since": max(0, self._since),
            "made": self._made,
            "unsaved": self._unsaved,
            "saved": self._saved,
        }
        line = json.dumps(told).encode()
        if len(line) <= _BYTES:
            os.pwrite(self._file, line.ljust(_BYTES), 0)
            self._told_at = time.monotonic()


def _opened() -> Optional[int]:
    """The file, None where nobody reads it."""
    folder, attempt = os.environ.get("JUMAR_JOB_DIR"), os.environ.get("JUMAR_ATTEMPT", "")
    if not folder or not attempt.isdigit() or not is_first(os.environ):
        return None
    if os.environ.get("JUMAR_TRACK") == "off":
        return None
    os.makedirs(os.path.join(folder, FOLDER), exist_ok=True)
    path = os.path.join(folder, FOLDER, f"attempt-{attempt}.json")
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)


ADVANCE = Advance()
