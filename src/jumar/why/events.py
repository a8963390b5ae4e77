"""Which faults a part of a log tells of.

A Python exception is one event, whatever its message says; other lines are events where they have a
signature. Source lines that a traceback quotes are not what happened and are left out."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jumar.why.advice import Told, told_by
from jumar.why.knowledge import (
    API_GONE,
    API_NEW,
    CUT_OFF,
    ERROR_LINE,
    LIBRARY_ERROR,
    OPTIONAL_MISSING,
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
    places,
    signatures_in,
)
from jumar.why.particulars import Read, read
from jumar.why.raised import Raised, cut_stack, exceptions
from jumar.why.reading import Line, waited, without_marks

_WARNING = re.compile(r"[a-z]Warning: ")
# A line that its writer calls information, early in it: no fault, whatever its words.
_INFORMATION = re.compile(r"^.{0,100}?(?:\bNCCL INFO\b|\[(?:INFO|DEBUG|EVENT)\]| (?:INFO|DEBUG) )")
_ERROR_LINE = re.compile(
    r"(?:^|[\s\[(])(?:error|Error|ERROR|fatal|FATAL)(?:\]| {0,3}:| -)"
    r"|\b(?:[Ff]ailed|[Ff]ailure) ?:|\b(?:[Ff]ailed|[Uu]nable) to [a-z]|\b(?:[Cc]ould not|[Cc]annot|[Cc]an't) (?:open|load|find|connect|start|create|read|write|run|register)\b|\bnot found\b"
)
# The message of a C++ exception that nobody caught, and of a check that ended the process.
_WHAT = re.compile(r".{0,120}?\bwhat\(\): |F\d{4} \d\d:\d\d:[\d.]+ +\d+ [\w.]+:\d+\] ")
_CHECK = "F"
# What a line that calls itself an error may tell of the world; of calls and values it tells too little.
_TOLD_BY_LINES = frozenset(
    (
        *("file-missing", "file-exists", "file-forbidden", "disk-broken", "host-allocation"),
        *("module-missing", "library-mismatch", "port-taken", "download", "data-broken"),
        *("network-connect", "process-limit", "checkpoint-fit", "extension-build", "connection"),
        *("access", "encoding", "no-cuda", "device-memory", "device-busy", "device-number"),
        *("driver-old", "gpu-kernel-image", "gpu-assert", "gpu-address", "device-ecc"),
        *(
            "shared-memory",
            "command-missing",
            "device-lost",
            "killed",
            "crash",
            "model-load",
            "checkpoint-broken",
            "kernel-missing",
            "not-there",
            "aborted",
            "node-login",
            "kernel-arguments",
            "compiler-missing",
        ),
    )
)
_WENT_ON = re.compile(
    r"(?i)\b(?:retry|retries|retrying|ignor\w+|skip\w*|fall(?:ing)? back|warning)\b"
)
# What libraries say in a line of its own and often do without.
_SURVIVABLE = frozenset(("library-missing",))
# What fails where code only tries whether a value is of a kind.
_TRIED = frozenset(("number-text", "encoding", "attribute-missing", "key-missing"))
# What is tried again, or elsewhere, is told by what follows.
_TRIES = re.compile(r"(?i)thrown while requesting|\bretry(?:ing)?\b|\btrying again\b|\battempt \d+")
# Commands, environments and settings that are shown hold words of faults and are none.
_SHOWN = re.compile(
    r"\s--[a-z][\w-]+\b.{0,200}?\s--[a-z][\w-]+\b.{0,200}?\s--[a-z]|^\s*(?:export )?[A-Z][A-Z0-9_]{2,}="
    r"|'[A-Z][A-Z0-9_]+': '[^']*', '[A-Z][A-Z0-9_]+': "
)
_ERROR_WORD = re.compile(
    r"(?i)error|fail|exception|fatal|abort|what\(\)|assert|\bfault\b|\bkilled\b|core dumped"
)
_WARNS = re.compile(r"(?i)(?<!NCCL )\bwarn(?:ing)?\b|\bdeprecat")
_DEPRECATES = re.compile(r"(?i)\bdeprecat|will be removed")
# Causes that tell little: where the exception was raised tells more.
_GENERAL = frozenset((LIBRARY_ERROR, PYTHON_ERROR, "refused", "unsupported", "checked"))
_REFUSALS = frozenset(("ValueError", "TypeError"))
# What another version of a package shows as.
_OF_VERSIONS = frozenset(
    (
        *("attribute-missing", "import-name", "library-use", "module-missing", "wrong-type"),
        *("library-mismatch", "optional-missing", "name-missing", "configuration", "arguments"),
    )
)
# Of these it helps to know whose code raised them, even where the message is known.
_RAISED_INSIDE = (_OF_VERSIONS | {"key-missing", "index-range", "unpacking"}) - {
    "optional-missing",
    "configuration",
    "arguments",
}
# What only says that something failed for an exception that was shown before.
_WRAPS = re.compile(
    r"(?i)\b(?:an )?error (?:occurred )?(?:while|during|when|in|executing)\b|see (?:the )?(?:above|original)|Unable to run|failed to (?:run|execute)\b"
)
# Where the names in the message tell more than the class.
_SAYS_LITTLE = _GENERAL | {
    *("configuration", "arguments", "wrong-type", "shape", "dtype", "other-device", "index-range"),
    *("data-broken", "data-pipeline", "not-there", "already-there", "library-use", "numerical"),
    *("model-load", "checkpoint-fit", "key-missing", "none-value", "autograd", "number-text"),
}
# What these say is about the values that were given: whose code says so, and in which version, matters less.
_ABOUT_VALUES = frozenset(
    (
        *("refused", "unsupported", "checked", "configuration", "arguments", "shape", "dtype"),
        *(
            "other-device",
            "index-range",
            "data-broken",
            "data-empty",
            "file-missing",
            "number-text",
        ),
    )
)
# Names that packages define only if another package is there.
_UNDEFINED = "NameError"
_MODULE_PACKAGE = "module-package"
"""The form of a module's name of which nothing else is known."""
_KIND_LINES, _NEAR, _READ_LINES = 2, 15, 8
_FEW_LINES = 10
"""A log of no more lines is what somebody took to be the error."""
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
    also: tuple[str, ...] = ()
    """Sentences that are added to its remedy."""
    particular: str | None = None
    """The form of its message, where that says more than its cause."""

    @property
    def level(self) -> Level:
        """How much it explains."""
        if self.is_hint:
            return Level.HINT
        return max(self.cause.level, Level.GENERAL) if self.is_general else self.cause.level


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
        for event in _events_of_one(without_marks(theirs), known)
    ]
    found.sort(key=lambda event: event.line.offset)
    return _with_times(_without_echoes(found), lines)


def _events_of_one(lines: Sequence[Line], known: _Known) -> Iterator[Event]:
    raised, quoted = exceptions(lines)
    yield from (_of_exception(one, known) for one in _kept(raised, known))
    inside = quoted | {one.index + i for one in raised for i in range(len(one.lines))}
    cut = cut_stack(lines, raised)
    if cut is not None:
        yield Event(causes()[CUT_OFF], lines[cut], _began([lines[cut]]), is_hint=True)
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
        and not (event.cause.name == PEER_LOST and late and event.line.rank in (*late, None))
    ]


def _kept(raised: list[Raised], known: _Known) -> list[Raised]:
    """Of a chain, the one that says it best.

    A cause that is named as such is the fault. One that was being handled is mostly a detail of the
    next, unless that one is no more than a lost peer or a fault of cleaning up. What was raised aside counts
    only alone."""
    kept: list[Raised] = []
    for one in [one for one in raised if not one.is_aside] or raised:
        if one.is_effect and kept:
            if not _tells_more(one, kept[-1], known):
                continue
            kept.pop()
        if one.replaces and kept:
            if one.is_cleaning or _says_less(one, kept[-1], known):
                continue
            kept.pop()
        kept.append(one)
    return kept


def _tells_more(one: Raised, cause: Raised, known: _Known) -> bool:
    """Whether what followed from an exception says more than that does: `Empty` of a queue says nothing."""
    if _WRAPS.search(one.said) and not cause.is_mute:
        return False
    event, before = _of_exception(one, known), _of_exception(cause, known)
    if before.particular is None and "advice" in event.also and "advice" not in before.also:
        # It was raised to say what to do.
        return True
    if before.cause.name in (PYTHON_ERROR, LIBRARY_ERROR) and event.weight:
        return True
    if event.particular is not None and (
        before.cause.whose == "network" or before.cause.name in _TRIED
    ):
        # What could not be fetched or read so was tried otherwise, too, and the last says what was meant.
        return True
    return before.level > event.level


def _says_less(one: Raised, before: Raised, known: _Known) -> bool:
    """Whether an exception says less than the one that was being handled when it was raised."""
    event, handled = _of_exception(one, known), _of_exception(before, known)
    if event.level is not handled.level:
        return event.level > handled.level
    return event.weight == 0 and event.particular is None and handled.weight > 0


def _of_exception(one: Raised, known: _Known) -> Event:
    text = "\n".join(line.text for line in one.lines)
    whole = f"{one.frames}\n{text}"
    best = _best([one for one in known if one.is_in(text, whole)])
    # What a launcher says below the script's own exception is not its message.
    if best is not None and best.cause.level >= Level.WRAPPER and one.asserted is not None:
        best = None
    if best is not None and best.cause.level in (Level.VAGUE, Level.WRAPPER):
        # That something failed is said by many messages; some say what, too.
        kind = _kind_of(one)
        best = None if kind.name in _TOLD_BY_LINES else best
    cause = _kind_of(one) if best is None else best.cause
    told = told_by(one)
    if told.api is not None and cause.name in _OF_VERSIONS:
        cause = causes()[API_GONE if told.api.is_gone else API_NEW]
    form = None if one.is_aside or cause.name in (API_GONE, API_NEW) else _form_of(one, cause)
    cause = cause if form is None else form.cause
    # What nobody waits for is not why a program ended; and one without a word says nothing.
    is_hint = (
        best is None
        and form is None
        and (one.is_aside or (one.is_mute and cause.name == PYTHON_ERROR))
    )
    if is_hint:
        cause = causes()[ERROR_LINE]
    is_named = best is not None or form is not None or cause.name in (API_GONE, API_NEW)
    return Event(
        cause,
        one.lines[0],
        _began(one.lines),
        {"error": one.said[:200], **told.values, **({} if form is None else form.values)}
        | ({} if one.place is None else {"place": one.place})
        | ({} if not one.own_source else {"own": one.own_source}),
        0 if best is None else best.weight,
        one.lines[-1].offset + len(one.lines[-1].text),
        is_general=not is_named and not one.is_own,
        is_hint=is_hint,
        also=_also(told, cause, form, is_known=best is not None or form is not None),
        particular=None if form is None else form.name,
    )


def _form_of(one: Raised, cause: Cause) -> Read | None:
    """What the form of its message says more than its cause, with the line of source and the files that it came through."""
    below = "\n".join(line.text for line in one.lines[1:_READ_LINES])
    first = one.lines[0].text.strip()
    if one.asserted is None and first != one.said:
        # Who quotes another's words may be known by its own.
        below = f"{below}\n{first} {one.said}"
    where = f"{one.frames}\n>> {one.own_source}\n> {one.source}"
    return read(cause.name, f"{one.said}\n{below}", where)


def _also(told: Told, cause: Cause, form: Read | None, *, is_known: bool) -> tuple[str, ...]:
    """Which of its sentences fit this cause."""
    is_about_versions = cause.name in _RAISED_INSIDE or not (
        is_known or cause.name in _ABOUT_VALUES
    )
    fits = {
        "advice": True,
        "inside": is_about_versions and cause.level <= Level.SYMPTOM,
        "between": is_about_versions and cause.level <= Level.SYMPTOM,
        "install": cause.name == "module-missing",
        "perhaps": form is not None and form.name == _MODULE_PACKAGE,
        "names": form is None and cause.name in _SAYS_LITTLE,
        "instead": cause.name in (API_GONE, API_NEW),
    }
    return tuple(
        f"{sentence}-{cause.name}" if sentence == "instead" else sentence
        for sentence in told.sentences
        if fits[sentence]
    )


def _kind_of(one: Raised) -> Cause:
    if one.name == _UNDEFINED and one.is_library:
        return causes()[OPTIONAL_MISSING]
    rest = "" if one.asserted else "\n".join(line.text for line in one.lines[1:_KIND_LINES])
    kind = _kind(f"{one.said}\n{rest}", is_own=one.is_own)
    if kind.name == "checked" and one.source.startswith("assert "):
        # The condition says more than the words that are given with it.
        kind = _kind(f"{one.name}: {one.source}", is_own=True)
    # A value that is refused is the caller's; where it was raised tells only of what says nothing else.
    is_refusal = one.name in _REFUSALS and kind.name not in (LIBRARY_ERROR, PYTHON_ERROR)
    if kind.name in _GENERAL and not is_refusal and one.is_library and one.asserted is None:
        where = one.frames.rpartition("\n")[2]
        return next((cause for cause, part in places() if f"/{part}" in where), kind)
    return kind


def _kind(said: str, *, is_own: bool) -> Cause:
    """What a message tells that no signature knows, by its beginning."""
    general = next((cause for cause, pattern in kinds() if pattern.search(said)), None)
    return general or causes()[PYTHON_ERROR if is_own else LIBRARY_ERROR]


def _of_line(lines: Sequence[Line], index: int, inside: set[int], known: _Known) -> Event | None:
    line = lines[index]
    text = line.text
    is_error = _ERROR_WORD.search(text) is not None
    if _is_no_fault(text) or (_SHOWN.search(text) and not is_error):
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
        is_script = best.cause.whose == "script" and best.cause.level is Level.FAULT
        # Only what is said behind it is warned of.
        head = text[: text.find(best.anchor)] if is_error else text
        is_warning = is_script and _WARNS.search(head) is not None
        if is_warning and _DEPRECATES.search(text):
            return None
        # What ended the program is its exception; a line tells of what a script did without, too.
        is_survivable = (
            best.cause.name in _SURVIVABLE or is_script or _TRIES.search(text) is not None
        )
        said = {"error": text.strip()[:200]}
        began = _began([line])
        return Event(best.cause, line, began, said, best.weight, end, is_survivable, is_warning)
    said = {"error": text.strip()[:200]}
    form = next((cause for cause, pattern in forms() if pattern.search(text)), None)
    if form is not None:
        return Event(form, line, _began([line]), said, len(text), end)
    kind = _kind(text.strip(), is_own=False) if _WHAT.match(text) else causes()[LIBRARY_ERROR]
    is_check = _WHAT.match(text) is not None and text.startswith(_CHECK)
    if is_check and kind.name in _GENERAL:
        # That a check failed is what all of them say.
        kind = causes()[LIBRARY_ERROR]
    if kind.name != LIBRARY_ERROR or is_check:
        return Event(kind, line, _began([line]), said, 0, end, is_general=True)
    if _ERROR_LINE.search(text):
        return Event(causes()[ERROR_LINE], line, _began([line]), said, 0, end, is_hint=True)
    return None


def read_closer(hint: Event) -> None:
    """What a line that calls itself an error tells of the world: looked for only where nothing else is told."""
    text = hint.line.text
    if hint.cause.name == ERROR_LINE and not _WENT_ON.search(text):
        kind = _kind(text.strip(), is_own=False)
        hint.cause = kind if kind.name in _TOLD_BY_LINES else hint.cause


def name_what_it_is_about(event: Event) -> None:
    """What the form of a line says more than its cause: looked for only in the one that is told."""
    is_told = event.particular is not None or event.cause.name in (API_GONE, API_NEW)
    form = None if is_told else read(event.cause.name, event.line.text.strip(), "")
    if form is not None and event.level is not Level.LOST_PEER:
        event.cause, event.particular = form.cause, form.name
        event.values = {**event.values, **form.values}


def last_resort(lines: Sequence[Line]) -> Event | None:
    """Of lines of which none is known as a fault, the first that has the form of one.

    In a few lines that somebody took to be the error, its class is enough."""
    is_short = len(lines) <= _FEW_LINES
    for line in lines:
        text = line.text.strip()
        if _is_no_fault(text) or _SHOWN.search(text):
            continue
        kind = _kind(text, is_own=False)
        form = read(kind.name, text, "")
        cause = form.cause if form is not None else kind
        if form is not None or (is_short and cause.name not in (LIBRARY_ERROR, *_GENERAL)):
            event = Event(cause, line, _began([line]), {"error": text[:200]})
            name_what_it_is_about(event)
            return event
    return None


def _is_no_fault(text: str) -> bool:
    """Whether a line is a warning or an information, by what it calls itself."""
    warning = _WARNING.search(text)
    if warning is not None and _ERROR_LINE.search(text[: warning.start()]) is None:
        return True
    return _INFORMATION.match(text) is not None


def _best(found: list[Signature]) -> Signature | None:
    return min(
        _most_particular(found),
        key=lambda one: (_VAGUE_LAST.get(one.cause.level, one.cause.level), -one.weight),
        default=None,
    )


def _most_particular(found: list[Signature]) -> list[Signature]:
    """Without those whose words another one has, with more: what a code means depends on who returned it."""
    return [one for one in found if not any(one.words < other.words for other in found)]


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
