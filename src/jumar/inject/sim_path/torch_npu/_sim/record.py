"""Counts what a run did: operations, dtypes, copies and waits by source line, and refusals.

Counting is best effort and never stops the run; the report at exit is made from it."""

import sys
import time
from pathlib import Path
from typing import Any, Counter, Dict, NamedTuple, Tuple

import torch

# As frames name them, which may be by a link to the environment, and where they really are.
_NOT_THE_USERS = tuple(
    str(folder)
    for path in (Path(__file__).parent.parent, Path(torch.__file__).parent)
    for folder in (path, path.resolve())
)
_MOST_PLACES = 2000


class Place(NamedTuple):
    """A line of the user's source."""

    file: str
    line: int


class Event(NamedTuple):
    """Something that would be slow or fail on a real device, and where it was requested."""

    kind: str
    """copy-to-device, copy-to-host, wait, refused."""
    what: str
    place: Place


class Record:
    """The counts of this process."""

    def __init__(self) -> None:
        self.started = time.time()
        self.operators: Counter[str] = Counter()
        self.host_operators: Counter[str] = Counter()
        self.host_places: Dict[str, Place] = {}
        self.dtypes: Counter[str] = Counter()
        self.events: Counter[Event] = Counter()
        self.bytes_moved: Counter[str] = Counter()
        self.steps = 0
        self.calls = 0
        self.findings = 0
        """Refusals and operators without a kernel, each time."""
        self.told_of_double = False
        self.misses_some = False
        """Whether something ran that could not be watched, so that the figures are lower bounds."""

    @property
    def used(self) -> bool:
        """Whether this process has used a simulated device."""
        return bool(self.calls or self.events or self.operators)

    def event(self, kind: str, what: str, nbytes: int = 0) -> bool:
        """Count one; true the first time it happens at this line."""
        self.findings += kind == "refused"
        event = Event(kind, what, user_line())
        first = event not in self.events
        if first and len(self.events) >= _MOST_PLACES:
            return False
        self.events[event] += 1
        self.bytes_moved[kind] += nbytes
        return first

    def host_operator(self, name: str) -> bool:
        """Count an operator that the NPU has no kernel for; true the first time."""
        self.findings += 1
        self.host_operators[name] += 1
        first = name not in self.host_places
        if first:
            self.host_places[name] = user_line()
        return first


_ours: Dict[str, bool] = {}


def _is_ours(filename: str) -> bool:
    known = _ours.get(filename)
    if known is None:
        known = _ours[filename] = filename.startswith((*_NOT_THE_USERS, "<"))
    return known


def user_line() -> Place:
    """The innermost line that is neither torch's nor ours."""
    frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # nothing else is as quick
    last: Tuple[str, int] = ("?", 0)
    while frame is not None:
        last = (frame.f_code.co_filename, frame.f_lineno)
        if not _is_ours(last[0]):
            break
        frame = frame.f_back
    return Place(*last)


RECORD = Record()
