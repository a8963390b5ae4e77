"""Which faults a part of a log tells of.

A Python exception is one event, whatever its message says (`exception`); other lines are events where they have a
signature (`line`). Source lines that a traceback quotes are not what happened and are left out."""

import re
from collections.abc import Container, Iterator, Sequence

from jumar.why.chains import kept
from jumar.why.event import Event, Known, began
from jumar.why.exception import of_exception
from jumar.why.knowledge import CUT_OFF, PEER_LATE, PEER_LOST, Level, causes, signatures_in
from jumar.why.line import of_line
from jumar.why.outlived import mark_outlived
from jumar.why.raised import cut_stack, exceptions
from jumar.why.reading import Line, unwrapped, waited, without_marks

# What a program says of an exception that it caught, in a line.
_CAUGHT = frozenset(("module-missing", "name-missing", "attribute-missing", "none-value"))
# How a watchdog ends its process, after it has said why.
_ABORTED = re.compile(r"^\W{0,4}Fatal Python error: Aborted|Signal: Aborted|Received signal 6\b")
_PROGRESS = re.compile(r"(?i)\b(?:epoch|step|iter(?:ation)?)s?\b[^\w\n]{0,3}\d|\d(?:it/s|s/it)\b")


def events_of(lines: Sequence[Line]) -> list[Event]:
    """All signs of faults in these lines, in their order."""
    text = "\n".join(line.text for line in lines)
    known = signatures_in(text)
    # What many write into one log is mixed line by line.
    writers: dict[str, list[Line]] = {}
    for line in lines:
        writers.setdefault(line.writer, []).append(line)
    found = [
        event
        for theirs in writers.values()
        for event in _events_of_one(unwrapped(without_marks(theirs)), known)
    ]
    found.sort(key=lambda event: event.line.offset)
    found = _without_echoes(found)
    mark_outlived(found, lines)
    return _with_times(found, lines)


def _events_of_one(lines: Sequence[Line], known: Known) -> Iterator[Event]:
    raised, quoted = exceptions(lines)
    yield from (of_exception(one, known) for one in kept(raised, known))
    inside = quoted | {one.index + i for one in raised for i in range(len(one.lines))}
    cut = cut_stack(lines, raised)
    if cut is not None:
        yield Event(causes()[CUT_OFF], lines[cut], began([lines[cut]]), is_hint=True)
    for index in range(len(lines)):
        if index not in inside:
            event = of_line(lines, index, inside, known)
            if event is not None:
                is_caught = event.cause.name in _CAUGHT and not event.is_hint
                event.is_hint = event.is_hint or (is_caught and _went_on(lines, index, inside))
                yield event


def _went_on(lines: Sequence[Line], index: int, inside: Container[int]) -> bool:
    """Whether training went on below a line, and an exception ended it later."""
    later = range(index + 1, len(lines))
    ended = next((at for at in later if at in inside), index)
    return any(_PROGRESS.search(lines[at].text) for at in range(index + 1, ended))


def _without_echoes(found: list[Event]) -> list[Event]:
    """Whoever says that a peer is lost says it of the operation that failed, too; and whoever says that it
    waited too long, that something was lost."""
    lost = {event.line.rank for event in found if event.level is Level.LOST_PEER}
    late = {event.line.rank for event in found if event.cause.name == PEER_LATE}
    ranks = {event.line.rank for event in found}
    if lost and len(ranks - {None}) == 1:
        # One rank's log, of which some lines say whose it is.
        lost = ranks
    return [
        event
        for event in found
        if not (event.level is Level.VAGUE and event.line.rank in lost)
        and not (event.cause.name == PEER_LOST and late and event.line.rank in (*late, None))
        and not (_ABORTED.search(event.line.text) and late and event.line.rank in (*late, None))
    ]


def _with_times(found: list[Event], lines: Sequence[Line]) -> list[Event]:
    """A line without a time was written when the one above it was, or soon after."""
    index, last = 0, None
    for event in found:
        while index < len(lines) and lines[index].offset <= event.line.offset:
            last = lines[index].at if lines[index].at is not None else last
            index += 1
        if event.at is None and last is not None:
            event.at = last - waited(event.line.text)
    return found
