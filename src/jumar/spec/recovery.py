"""What it cost to go on after an attempt: its times, and what the training told of its steps."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from jumar.spec.causes import Cause
from jumar.spec.records import AttemptRecord, Recovery

ADVANCE_FILE = "steps/attempt-{number}.json"
"""Where `jumar_start/advance.py` writes."""
ADVANCE_BYTES = 1024
_MOST = 2**53


@dataclass(frozen=True, slots=True)
class Advance:
    """How far an attempt came, as its first rank told."""

    first_at: float | None = None
    """When it had made a step."""
    resumed: Mapping[str, int] = field(default_factory=dict[str, int])
    """From which step each counter went on."""
    counter: str | None = None
    """Who counted last."""
    step: int = 0
    made: int = 0
    """Steps of an optimizer."""
    unsaved: int = 0
    """Those since the last file that was written."""
    saved: str | None = None
    """That file."""

    @property
    def is_silent(self) -> bool:
        """Whether it told of no step at all."""
        return self.counter is None and not self.made


UNTOLD = Advance()
_UNSEEN = frozenset(
    (
        Cause.LAUNCHER_KILLED,
        Cause.MACHINE_RESTARTED,
        Cause.DIRECTORY_GONE,
        Cause.RESULT_UNREADABLE,
        Cause.NO_RESULT,
    )
)
"""Ends that nobody saw: what is known is when they were found."""


def read_advance(data: bytes) -> Advance:
    """The script may have written anything there."""
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError):
        return UNTOLD
    if not isinstance(found, dict):
        return UNTOLD
    told = cast("dict[str, Any]", found)
    counter, saved = told.get("counter"), told.get("saved")
    return Advance(
        first_at=_time(told.get("first_at")),
        resumed=_counters(told.get("resumed")),
        counter=counter if isinstance(counter, str) else None,
        step=_number(told.get("step")) + _number(told.get("since")),
        made=_number(told.get("made")),
        unsaved=_number(told.get("unsaved")),
        saved=saved if isinstance(saved, str) else None,
    )


def recovery(
    before: AttemptRecord, after: AttemptRecord, told: Advance = UNTOLD, tells: Advance = UNTOLD
) -> Recovery:
    """Of two attempts in a row, and what each of them told."""
    return Recovery(
        stop_s=_between(before.ending_at, before.finished_at),
        detect_s=None if is_unseen(before) else _between(before.finished_at, before.noticed_at),
        wait_s=_between(before.noticed_at, after.created_at),
        start_s=_between(after.created_at, after.started_at),
        load_s=_between(after.started_at, tells.first_at),
        repeated_steps=_repeated(before, told, tells),
    )


def is_unseen(attempt: AttemptRecord) -> bool:
    """Whether it is not known when it ended, so not how long nobody noticed: its launcher was killed with all that
    could have told, perhaps with the server too."""
    return attempt.cause in _UNSEEN


def _repeated(before: AttemptRecord, told: Advance, tells: Advance) -> int | None:
    if told.counter is not None:
        resumed = tells.resumed.get(told.counter)
        return None if resumed is None else max(0, told.step - resumed)
    if tells.first_at is None or not told.made:
        return None
    # The script resumes by itself, which it can from what the platform saw, if from anything.
    if before.saved is None:
        return None
    if told.saved is None:
        # What is there is of an earlier attempt, unless something else than torch wrote it.
        return told.made if before.advanced is False else None
    return told.unsaved if before.saved == told.saved else None


def _between(since: float | None, until: float | None) -> float | None:
    # Clocks of machines differ a little.
    return None if since is None or until is None else max(0.0, until - since)


def _counters(found: Any) -> dict[str, int]:
    if not isinstance(found, dict):
        return {}
    counters = cast("dict[str, Any]", found)
    return {name: _number(step) for name, step in counters.items()}


def _time(value: Any) -> float | None:
    # Compared, not converted: a whole number may be too large to be a float.
    return value if isinstance(value, int | float) and 0 <= value < _MOST else None


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < _MOST else 0
