"""Which faults a program outlived: it trained on below them, until another one ended it.

A picture that was passed over, a thread that only watched, a save that was tried again: each leaves a traceback, and none is why
the training ended. A second or two of other output shows nothing, since what died may be written late, and other ranks go
on until they need it: the steps of the same writer have to advance."""

import re
from collections.abc import Sequence

from jumar.why.event import Event
from jumar.why.knowledge import Level
from jumar.why.reading import Line

_STEPS = 5
"""So many different steps are no late output."""
_FEWEST_ENDS = 2
_TRAINS = re.compile(r"(?i)it/s|s/it|loss|epoch|step|\biter|\beta\b")
# What a line counts: `step 12`, `iter: 120`, `[ 120/1251]`, ` 435/3659 [52:14<`, `'epoch': 0.12`.
_COUNTED = (
    re.compile(r"(?i)(?:\b|_)(?:step|iter|iteration|update)s?\b\W{0,4}(\d{1,12})\b"),
    re.compile(r"(?<![\w/.:-])(\d{1,9})/\d{2,9}(?![\w/.:-])"),
    re.compile(r"(?i)\bepoch\b\W{0,4}(\d{1,6}(?:\.\d{1,9})?)"),
)


def mark_outlived(found: Sequence[Event], lines: Sequence[Line]) -> None:
    """Of signs in their order, those that the last one that could have ended the program leaves behind."""
    ends = [event.line.offset for event in found if event.level <= Level.SYMPTOM]
    if len(ends) < _FEWEST_ENDS:
        return
    counted = [line for line in lines if ends[0] < line.offset < ends[-1]]
    # From the end on: which steps of each writer came later.
    after: dict[str, set[str]] = {}
    for event in reversed(found):
        while counted and counted[-1].offset > event.line.offset:
            line = counted.pop()
            step = _step(line.text)
            if step is not None:
                after.setdefault(line.writer, set()).add(step)
        event.is_outlived = len(after.get(event.line.writer, ())) >= _STEPS


def _step(text: str) -> str | None:
    """The step that a line of progress counts."""
    if _TRAINS.search(text) is None:
        return None
    found = (pattern.search(text) for pattern in _COUNTED)
    return next((one[1] for one in found if one is not None), None)
