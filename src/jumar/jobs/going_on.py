"""What it cost a job to go on, attempt by attempt: the times of the list, and what its training told in its files."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from io import FileIO
from itertools import pairwise

from jumar.errors import NotFound
from jumar.spec.records import AttemptRecord
from jumar.spec.recovery import (
    ADVANCE_BYTES,
    ADVANCE_FILE,
    UNTOLD,
    Advance,
    read_advance,
    recovery,
)

_LAST = 100
"""Of a job with more attempts the steps of the last ones are read."""


def with_recovery(
    attempts: tuple[AttemptRecord, ...], open_file: Callable[[str], FileIO]
) -> tuple[AttemptRecord, ...]:
    """The attempts, each after the first with what it cost to go on."""
    if len(attempts) < 2:
        return attempts
    told = [UNTOLD] * max(0, len(attempts) - _LAST)
    told += [_told(open_file, attempt.number) for attempt in attempts[-_LAST:]]
    later = [
        replace(after, recovery=recovery(before, after, told[place], told[place + 1]))
        for place, (before, after) in enumerate(pairwise(attempts))
    ]
    return (attempts[0], *later)


def _told(open_file: Callable[[str], FileIO], number: int) -> Advance:
    try:
        with closing(open_file(ADVANCE_FILE.format(number=number))) as file:
            return read_advance(file.read(ADVANCE_BYTES) or b"")
    except (NotFound, OSError):
        return UNTOLD
