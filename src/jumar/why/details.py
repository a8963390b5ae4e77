"""What a log says around the line that was chosen: who it was, how it ended, and where its own error is.

Whoever only says that another one failed is no answer; which log holds the answer, and how to get it, is one."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from jumar.why.knowledge import LIBRARY_ERROR, Cause, Level, rows

WHAT, REMEDY, FIRST = "what", "remedy", "first"
"""With what is wrong, behind what to do, or before it."""
_LINES = re.compile(r"\s*\n\s*")
_CONSEQUENCES = range(Level.SYMPTOM, Level.WRAPPER + 1)


@dataclass(frozen=True, slots=True)
class Detail:
    """A sentence that is added, where it is, and its values."""

    to: str
    sentence: str
    values: Mapping[str, str]


def is_consequence(cause: Cause) -> bool:
    """Whether this only follows from a fault that another log tells of."""
    return cause.level in _CONSEQUENCES and cause.name != LIBRARY_ERROR


def has_details(cause: Cause) -> bool:
    """Whether anything is looked for around it."""
    return cause.name in _table()


def details_of(cause: Cause, text: str) -> Iterator[Detail]:
    """What this text says besides, for such a cause."""
    told: set[str] = set()
    for to, sentence, pattern in _table().get(cause.name, ()):
        topic = sentence.partition("-")[0]
        found = pattern.search(text) if topic not in told else None
        if found is not None:
            told.add(topic)
            values = {
                name: _LINES.sub("; ", value.strip()) for name, value in found.groupdict("").items()
            }
            yield Detail(to, sentence, values)


@cache
def _table() -> Mapping[str, list[tuple[str, str, re.Pattern[str]]]]:
    found: dict[str, list[tuple[str, str, re.Pattern[str]]]] = {}
    for names, to, sentence, pattern in rows("jumar.why", "details.tsv"):
        row = to, sentence, re.compile(pattern)
        for name in names.split():
            found.setdefault(name, []).append(row)
    return found
