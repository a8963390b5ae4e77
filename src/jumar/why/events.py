"""Which faults a part of a log tells of.

A Python exception is one event, whatever its message says; other lines are events where they have a
signature. Source lines that a traceback quotes are not what happened and are left out."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jumar.why.knowledge import (
    ERROR_LINE,
    LIBRARY_ERROR,
    PEER_LATE,
    PEER_LOST,
    PYTHON_ERROR,
    Cause,
    Level,
    Signature,
    causes,
    forms,
    has,
    kinds,
    signatures,
)
from jumar.why.reading import Line, waited

_TRACEBACK = "Traceback (most recent call last)"
_FRAME = re.compile(r'\s*File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<name>.+))?')
_EXCEPTION = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w*\.){0,8}(?:Exception|[A-Z_]\w*(?:Error|Exception|Interrupt|Exit|Exhausted|Failed|Fault|Abort|Expired|Timeout|NotFound|Unavailable)))"
    r"(?:: ?(?P<message>\S.*)|:?\s*$)"
)
_ANY_EXCEPTION = re.compile(r"(?P<name>[A-Za-z_][\w.]{2,80})(?:: ?(?P<message>.*)|\s*$)")
# These are raised where code is wrong; others tell of the world as well.
_OWN_FAULTS = frozenset(
    (
        *("ValueError", "TypeError", "KeyError", "AttributeError", "AssertionError", "IndexError"),
        *("NameError", "UnboundLocalError", "ZeroDivisionError", "NotImplementedError"),
        *("StopIteration", "LookupError", "OverflowError", "FloatingPointError", "ImportError"),
    )
)
_DURING = "During handling of the above exception"
_CAUSED = "The above exception was the direct cause"
# What Python says of an exception of its own cleaning up; the one that ended the program is another.
_ASIDE = ("Error in sys.excepthook", "Exception ignored in", "Error in atexit")
_ABOVE = re.compile(r"(?:\[[^\]]*\]|\d{4}-\S+|\S+ - |[A-Z]+:\S+:|\s)*")
_ANOTHER_MATTER = re.compile(
    r"\[?[WIEF]\d{3,4} |terminate called|Traceback|The above exc|During h|srun:|slurmstepd"
)
# Below this an exception quotes the one that it was raised for: `BackendCompilerFailed: backend='inductor' raised:`.
_QUOTES = " raised:"
_WARNING = re.compile(r"[a-z]Warning: ")
# A line that its writer calls information, early in it: no fault, whatever its words.
_INFORMATION = re.compile(r"^.{0,100}?(?:\bNCCL INFO\b|\[(?:INFO|DEBUG|EVENT)\]| (?:INFO|DEBUG) )")
_ERROR_LINE = re.compile(r"(?:^|[\s\[(])(?:error|Error|ERROR|fatal|FATAL)(?:\]|:| -)")
# The message of a C++ exception that nobody caught.
_WHAT = re.compile(r"\s*what\(\): ")
# Functions that only clean up: what they raise while an exception passes is not why.
_CLEANING = frozenset(("__exit__", "__del__", "__aexit__", "close", "shutdown", "_cleanup"))
# What a line that calls itself an error may tell of the world; of calls and values it tells too little.
_TOLD_BY_LINES = frozenset(
    (
        *("file-missing", "file-exists", "file-forbidden", "disk-broken", "host-allocation"),
        *("module-missing", "library-mismatch", "port-taken", "download", "data-broken"),
        *("network-connect", "process-limit", "checkpoint-fit"),
    )
)
_WENT_ON = re.compile(r"(?i)\b(?:retry|retries|retrying|ignor\w+|skip\w*|fall(?:ing)? back|warning)\b")
# What libraries say in a line of its own and often do without.
_SURVIVABLE = frozenset(("library-missing",))
_MESSAGE_LINES, _KIND_LINES, _NEAR = 12, 2, 15
_LIBRARY = ("-packages/", "/lib/python", "-packages\\", "<frozen", "<string>")
# A traceback that is drawn as a box: its frames are `path:line in name`, all else in it is quoted source.
_BOXED = ("\u2502", "\u256d", "\u2570", "\u2503", "\u254f")
_BOXED_FRAME = re.compile(r"[\u2502\u2503] (?P<path>\S.*\.py):(?P<line>\d+) in (?P<name>\S+)")
# Within one message: what it says of a lost peer is worth more than that an operator failed.
_VAGUE_LAST = {Level.VAGUE: Level.LOST_PEER + 0.5}


_Known = Sequence[Signature]
"""The signatures whose longest words are in the text at all."""


@dataclass(slots=True)
class Event:
    """A sign of a fault."""

    cause: Cause
    line: Line
    at: float | None
    """When what it tells of began, as far as that is known."""
    values: dict[str, str] = field(default_factory=dict[str, str])
    weight: int = 0
    end: int = 0
    """The last byte that belongs to it."""
    is_general: bool = False
    """Known only by the kind of its message, and not the script's own."""
    is_hint: bool = False
    """Only a line that calls itself an error."""

    @property
    def level(self) -> Level:
        """How much it explains."""
        if self.is_hint:
            return Level.HINT
        return max(self.cause.level, Level.GENERAL) if self.is_general else self.cause.level


@dataclass(slots=True)
class _Raised:
    """A Python exception in a log: its message, where it came from, and how it goes with the one before."""

    index: int
    lines: list[Line]
    name: str
    place: str | None
    frames: str
    is_own: bool
    """The script's own fault, whatever it is."""
    is_effect: bool = False
    replaces: bool = False
    is_aside: bool = False
    is_cleaning: bool = False


def events_of(lines: Sequence[Line]) -> list[Event]:
    """All signs of faults in these lines, in their order."""
    text = "\n".join(line.text for line in lines)
    known = [signature for signature in signatures() if signature.anchor in text]
    # What many write into one log is mixed line by line.
    writers: dict[str, list[Line]] = {}
    for line in lines:
        writers.setdefault(line.writer, []).append(line)
    found = [event for theirs in writers.values() for event in _events_of_one(theirs, known)]
    found.sort(key=lambda event: event.line.offset)
    return _with_times(_without_echoes(found), lines)


def _events_of_one(lines: Sequence[Line], known: _Known) -> Iterator[Event]:
    raised, quoted = _exceptions(lines)
    yield from (_of_exception(one, known) for one in _kept(raised, known))
    inside = quoted | {one.index + i for one in raised for i in range(len(one.lines))}
    for index in range(len(lines)):
        if index not in inside:
            event = _of_line(lines, index, inside, known)
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
        and not (event.cause.name == PEER_LOST and event.line.rank in late)
    ]


def _exceptions(lines: Sequence[Line]) -> tuple[list[_Raised], set[int]]:
    raised: list[_Raised] = []
    quoted: set[int] = set()
    index = 0
    while index < len(lines):
        start = index
        if lines[index].text.lstrip().startswith(_BOXED):
            index = _end_of_box(lines, index)
            quoted |= set(range(start, index))
        # CANN writes `TraceBack` over lines of its own.
        is_stack = index < len(lines) and _TRACEBACK in lines[index].text
        if is_stack:
            index = _end_of_stack(lines, index)
            quoted |= set(range(start, index))
        one = _exception(lines, start, index, is_stack) if index < len(lines) else None
        if one is not None:
            raised.append(one)
            index += len(one.lines)
        elif not is_stack:
            quoted |= _frame_without_stack(lines, index)
            index += 1
    return raised, quoted


def _end_of_stack(lines: Sequence[Line], start: int) -> int:
    """The line of the exception below a stack: the first that is not indented."""
    indent = lines[start].text.index(_TRACEBACK)
    if _ABOVE.fullmatch(lines[start].text[:indent]) is None:
        indent = 0
    for index in range(start + 1, len(lines)):
        text = lines[index].text
        if text[indent : indent + 1].strip() and not text.lstrip().startswith('File "'):
            return index
        if len(text) <= indent and text.strip():
            return index
    return len(lines)


def _frame_without_stack(lines: Sequence[Line], index: int) -> set[int]:
    """A frame whose stack has lost its first line, and the source line that it quotes."""
    frame = _FRAME.match(lines[index].text)
    if frame is None or frame["name"] is None:
        return set()
    below = "".join(line.text for line in lines[index + 1 : index + 2]).lstrip()
    is_source = not (_EXCEPTION.match(below) or _FRAME.match(below) or _TRACEBACK in below)
    return {index, index + 1} if is_source else {index}


def _end_of_box(lines: Sequence[Line], start: int) -> int:
    rest = range(start, len(lines))
    is_out = (index for index in rest if not lines[index].text.lstrip().startswith(_BOXED))
    return next(is_out, len(lines))


def _exception(lines: Sequence[Line], start: int, index: int, is_stack: bool) -> _Raised | None:
    text = lines[index].text.strip()
    found = _EXCEPTION.match(text) or (_ANY_EXCEPTION.match(text) if is_stack else None)
    if found is None:
        return None
    message = [lines[index]]
    for line in lines[index + 1 : index + _MESSAGE_LINES]:
        is_another = _EXCEPTION.match(line.text) and not message[-1].text.rstrip().endswith(_QUOTES)
        if is_another or _ANOTHER_MATTER.match(line.text):
            break
        message.append(line)
    frames = [
        frame
        for line in lines[start:index]
        if (frame := _FRAME.match(line.text) or _BOXED_FRAME.match(line.text.lstrip()))
    ]
    own = [frame for frame in frames if not any(part in frame["path"] for part in _LIBRARY)]
    # A syntax error has the place of the error as its last frame.
    shown = (own or frames)[-1:]
    before = " ".join(line.text for line in lines[max(start - 3, 0) : start]) if is_stack else ""
    return _Raised(
        index,
        message,
        found["name"],
        f"{shown[0]['path']}:{shown[0]['line']}" if shown else None,
        "\n".join(frame[0] for frame in frames),
        is_own=found["name"] in _OWN_FAULTS or (bool(own) and own[-1] is frames[-1]),
        is_effect=_CAUSED in before,
        replaces=_DURING in before,
        is_aside=any(word in before for word in _ASIDE),
        is_cleaning=bool(frames) and frames[-1]["name"] in _CLEANING,
    )


def _kept(raised: list[_Raised], known: _Known) -> list[_Raised]:
    """Of a chain, the one that says it best.

    A cause that is named as such is the fault. One that was being handled is mostly a detail of the
    next, unless that one is no more than a lost peer or a fault of cleaning up. What was raised aside counts
    only alone."""
    kept: list[_Raised] = []
    for one in [one for one in raised if not one.is_aside] or raised:
        if one.is_effect and kept and _level(kept[-1], known) <= _level(one, known):
            continue
        if one.replaces and kept:
            if one.is_cleaning or _order(one, known) > _order(kept[-1], known):
                continue
            kept.pop()
        kept.append(one)
    return kept


def _level(one: _Raised, known: _Known) -> Level:
    return _of_exception(one, known).level


def _order(one: _Raised, known: _Known) -> tuple[int, bool]:
    event = _of_exception(one, known)
    return event.level, event.weight == 0


def _of_exception(one: _Raised, known: _Known) -> Event:
    text = "\n".join(line.text for line in one.lines)
    whole = f"{one.frames}\n{text}"
    best = _best([one for one in known if one.is_in(text, whole)])
    first = one.lines[0].text.strip()
    cause = _kind(one.lines, is_own=one.is_own) if best is None else best.cause
    return Event(
        cause,
        one.lines[0],
        _began(one.lines),
        {"error": first[:200]} | ({} if one.place is None else {"place": one.place}),
        0 if best is None else best.weight,
        one.lines[-1].offset + len(one.lines[-1].text),
        is_general=best is None and not one.is_own,
    )


def _kind(lines: Sequence[Line], *, is_own: bool) -> Cause:
    """What a message tells that no signature knows, by its beginning."""
    said = "\n".join(line.text.strip() for line in lines[:_KIND_LINES])
    general = next((cause for cause, pattern in kinds() if pattern.search(said)), None)
    return general or causes()[PYTHON_ERROR if is_own else LIBRARY_ERROR]


def _of_line(lines: Sequence[Line], index: int, inside: set[int], known: _Known) -> Event | None:
    line = lines[index]
    text = line.text
    if _WARNING.search(text) or _INFORMATION.match(text):
        return None
    here = [one for one in known if has(one.anchor, text)]
    start = max(index - 3, 0)
    near = [
        other.text
        for at, other in enumerate(lines[start : index + _NEAR], start)
        if here and at not in inside
    ]
    around = "\n".join(near)
    best = _best([one for one in here if one.is_in(text, around)])
    end = line.offset + len(text)
    if best is not None:
        is_survivable = best.cause.name in _SURVIVABLE
        return Event(best.cause, line, _began([line]), {}, best.weight, end, is_survivable)
    said = {"error": text.strip()[:200]}
    form = next((cause for cause, pattern in forms() if pattern.search(text)), None)
    if form is not None:
        return Event(form, line, _began([line]), said, len(text), end)
    kind = _kind([line], is_own=False) if _WHAT.match(text) else causes()[LIBRARY_ERROR]
    if kind.name != LIBRARY_ERROR:
        return Event(kind, line, _began([line]), said, 0, end, is_general=True)
    if _ERROR_LINE.search(text):
        hint = _kind([line], is_own=False)
        if hint.name not in _TOLD_BY_LINES or _WENT_ON.search(text):
            hint = causes()[ERROR_LINE]
        return Event(hint, line, _began([line]), said, 0, end, is_hint=True)
    return None


def _best(found: list[Signature]) -> Signature | None:
    return min(
        found,
        key=lambda one: (_VAGUE_LAST.get(one.cause.level, one.cause.level), -one.weight),
        default=None,
    )


def _began(lines: Sequence[Line]) -> float | None:
    at = next((line.at for line in lines if line.at is not None), None)
    return None if at is None else at - waited(" ".join(line.text for line in lines))


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
