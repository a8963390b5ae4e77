"""Which faults a part of a log tells of.

A Python exception is one event, whatever its message says (`exception`); other lines are events where they have a
signature (`line`). Source lines that a traceback quotes are not what happened and are left out."""

from collections.abc import Iterator, Sequence

from jumar.why.event import Event, Known, began
from jumar.why.exception import kept, of_exception
from jumar.why.knowledge import CUT_OFF, PEER_LATE, PEER_LOST, Level, causes, signatures_in
from jumar.why.line import of_line
from jumar.why.raised import cut_stack, exceptions
from jumar.why.reading import Line, unwrapped, waited, without_marks


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
    return _with_times(_without_echoes(found), lines)


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
                yield event


def _without_echoes(found: list[Event]) -> list[Event]:
    """Whoever says that a peer is lost says it of the operation that failed, too; and whoever says that it
    waited too long, that something was lost."""
    lost = {event.line.rank for event in found if event.level is Level.LOST_PEER}
    late = {event.line.rank for event in found if event.cause.name == PEER_LATE}
    return [
        event
        for event in found
        if not (event.level is Level.VAGUE and event.line.rank in lost)
        and not (event.cause.name == PEER_LOST and late and event.line.rank in (*late, None))
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
