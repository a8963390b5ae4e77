"""What a line tells that belongs to no exception: by its signature, its form, or that it calls itself an error."""

import re
from collections.abc import Sequence

from jumar.why.event import (
    GENERAL,
    TOLD_BY_LINES,
    Event,
    Known,
    began,
    best_of,
    is_asked_back,
    kind_by,
)
from jumar.why.knowledge import (
    ERROR_LINE,
    LIBRARY_ERROR,
    Level,
    causes,
    forms,
    has,
)
from jumar.why.naming import name_what_it_is_about, whole_of
from jumar.why.particulars import read
from jumar.why.reading import Line
from jumar.why.reasons import reason_of
from jumar.why.statements import stated
from jumar.why.symbols import LONGEST_ERROR, cut

_WARNING = re.compile(r"[a-z]Warning: ")
# A line that its writer calls information, early in it: no fault, whatever its words. What this allocator of TensorFlow and JAX warns
# of is tried otherwise, and raised below if that fails too.
_INFORMATION = re.compile(
    r"^(?:I (?:tensorflow|external|xla)/|Unable to find image '[^']+' locally|.{0,100}?(?:\bNCCL INFO\b|\[(?:INFO|DEBUG|EVENT)\]| (?:INFO|DEBUG) |: I (?:tensorflow|external|xla)/|: W (?:tensorflow|external|xla)/\S{0,80}bfc_allocator))"
)
# Warnings that say what is wrong, where nothing else does: why there is no card, that what was saved is broken.
_TELLING = re.compile(r"CUDA initialization: |Failed to clone\(\) tensor")
_ERROR_LINE = re.compile(
    # A number behind it is a measure: `Max error: 2.000000`, `test error: 0.31%`.
    r"(?:^|[\s\[(])(?:error|Error|ERROR|fatal|FATAL)(?:\]| {0,3}:(?! {0,8}[-+]?(?:\d+\.\d|\.\d|\d+(?:[eE]-?\d|%)|0\s*$|nan\b|NaN\b))| -)"
    # As loggers write it: `16:35:37-591289 ERROR    No images`, `… | ERROR    | module`.
    r"|^.{0,24}\d\d:\d\d[\d:.,-]{0,12}\s+(?:\| )?ERROR\s"
    # Below a line with the time, which rich writes once a second only: `           ERROR    No images`.
    r"|^\s{6,40}ERROR\s{2,}\S"
    # A check of C++ without a colon: `Error invalid argument at line 7 in file x.cu`.
    r"|^(?:Error|ERROR|Fatal|FATAL) [a-z]{2,}\s[a-z]"
    r"|\blevel=(?:error|fatal)\b|\b(?:[Ff]ailed|[Ff]ailure) ?:|\b(?:[Ff]ailed|[Uu]nable) to [a-z]|\b(?:[Cc]ould not|[Cc]annot|[Cc]an't) (?:open|load|find|connect|start|create|read|write|run|register)\b|\bnot found\b"
)
# What a training measures, by its name.
_MEASURE = re.compile(
    r"(?i)\b(?:train(?:ing)?|test|val|valid(?:ation)?|eval|dev|mean|max|min|avg|average|relative|absolute|squared|reconstruction|classification|word|character) error {0,3}[:=] {0,8}[-+]?\d"
)
# The message of a C++ exception that nobody caught, and of a check that ended the process.
_WHAT = re.compile(r".{0,120}?\bwhat\(\): |F\d{4} \d\d:\d\d:[\d.]+ +\d+ [\w.]+:\d+\] ")
_CHECK = "F"
_WENT_ON = re.compile(
    r"(?i)\b(?:retry|retries|retrying|ignor\w+|skip\w*|fall(?:ing)? back|warning)\b"
)
# What libraries say in a line of its own and often do without.
_SURVIVABLE = frozenset(("library-missing",))
# What is tried again, or elsewhere, is told by what follows.
_TRIES = re.compile(r"(?i)thrown while requesting|\bretry(?:ing)?\b|\btrying again\b|\battempt \d+")
# Nobody answers at the meeting point: who should have may have ended, and it is tried again.
_NOBODY_LISTENS = re.compile(
    r"client socket has failed to connect.{0,300}(?:Connection (?:refused|timed out)|No route to host|Cannot assign requested address)"
    # The agent of a node whose meeting point has ended.
    r"|failed to send a keep-alive heartbeat to the rendezvous"
)
# What the machine lacks and the program says that it does without.
_DOES_WITHOUT = re.compile(
    r"(?i)\b(?:continuing|proceeding|going on|carrying on)\b|\b(?:skipp(?:ing|ed)|ignored|ignoring|disabling|falling back)\b|\bwill (?:not be used|be disabled)\b"
)
# What was said before a container's program began, what apt and nvidia-smi passed over, what the kernel waited for and mostly
# got, and a peer that is gone already: a program that ended itself says more.
_PASSED = re.compile(
    r"\s*Warning\s+[A-Z]\w+\s|W: |NVIDIA-SMI has failed|slurmstepd: error: (?:task/cgroup|xcgroup|cgroup/)"
    r"|.{0,80}\b(?:not responding, still trying|blocked for more than \d+ seconds)"
    r"|.{0,120}NCCL WARN .{0,60}[Cc]onnect to \S+ failed\W+Connection refused"
)
# Frames of C++, and what a watchdog says of a recorder that was not on.
_SIDE_NOTE = re.compile(
    r"\s*frame #\d+: |.{0,120}Stack trace of the failed collective not found, potentially"
)
# The type of an event of Kubernetes, which calls no fault by another name.
_EVENT_TYPE = re.compile(r"\s*Warning\s+(?=[A-Z]\w+\s)")
# Commands, environments and settings that are shown hold words of faults and are none.
_SHOWN = re.compile(
    r"\s--[a-z][\w-]+\b.{0,200}?\s--[a-z][\w-]+\b.{0,200}?\s--[a-z]|^\s*(?:export )?[A-Z][A-Z0-9_]{2,}="
    r"|'[A-Z][A-Z0-9_]+': '[^']*', '[A-Z][A-Z0-9_]+': "
)
# How a build calls a compiler or a linker: the names of its macros and folders are no fault.
_COMPILES = re.compile(
    r"^\s*(?:\[\d+/\d+\] )?(?:\S{0,200}/)?(?:[\w-]{1,40}-)?(?:cc|gcc|c\+\+|g\+\+|clang|clang\+\+|nvcc|hipcc|icpx?|ld)(?:-?[\d.]{1,8})?(?:\.exe)? --?[A-Za-z]"
    r"(?!.*(?::\s(?:fatal )?error\b|\bfailed\b|\bnot found\b|No such file|[Kk]illed))"
)
_ERROR_WORD = re.compile(
    r"(?i)error|fail|exception|fatal|abort|what\(\)|assert|\bfault\b|\bkilled\b|core dumped"
)
_WARNS = re.compile(r"(?i)(?<!NCCL )\bwarn(?:ing)?\b|\bdeprecat")
_DEPRECATES = re.compile(r"(?i)\bdeprecat|will be removed")
# That something failed, and no more: who says so announces what says why, or repeats it.
_ANNOUNCES = re.compile(
    r"(?i)^[\W\d_]{0,40}(?:(?:error|critical|fatal|exception|main|root|trainer?|stderr)\b[\W\d_]{0,40}){0,4}"
    r"(?:(?:an? |the )?(?:unexpected |unhandled |uncaught |internal |unknown )?(?:error|exception|failure|problem)s?"
    r"(?: (?:has |have )?(?:been )?(?:occurred|happened|raised|caught|encountered|detected))?(?:,? please check.{0,40})?"
    r"|(?:an? )?(?:error|exception|failure) (?:while |when |during |in |at |executing |running |processing )+"
    r"(?:the |a )?(?:stage |step |phase |task |job |function |main )?['\"]?[\w.-]{1,40}['\"]?(?: with overrides: \[.{0,1500}\])?"
    r"|(?:the |your )?(?:model )?(?:training|train|job|run|task|stage|step|script|program|process|command|experiment|trial|pipeline|execution|fit)"
    r"(?: [\w.-]{1,40})? (?:has |was |is )?(?:failed|fails|aborted|stopped|terminated|crashed|interrupted)(?: unexpectedly| with (?:an )?errors?)?)"
    r"[\W\d]{0,8}"
)
# A sentence that ends on the next line.
_GOES_ON = (":", ",", "\\", "(")
# What Rust programs write below an error, the last one the reason.
_CAUSED_BY, _CAUSES_BELOW = "Caused by:", 7
_NEAR = 15
_VERY_FEW_LINES, _FEW_LINES = 3, 10
"""A log of no more lines is what somebody took to be the error."""


def of_line(lines: Sequence[Line], index: int, inside: set[int], known: Known) -> Event | None:
    """The sign that a line is, if any; `inside` are the lines that belong to exceptions."""
    line = lines[index]
    text = line.text
    is_error = _ERROR_WORD.search(text) is not None
    is_aside = _is_no_fault(text) or _SIDE_NOTE.match(text) is not None
    if is_aside or (_SHOWN.search(text) and not is_error):
        return None
    here = [one for one in known if has(one.anchor, text)]
    start = max(index - 3, 0)
    near = [
        other.text
        for at, other in enumerate(lines[start : index + _NEAR], start)
        if here and at not in inside
    ]
    around = "\n".join(near)
    best = best_of([one for one in here if one.is_in(text, around)])
    end = line.offset + len(text)
    if best is not None:
        is_script = best.cause.whose == "script" and best.cause.level is Level.FAULT
        # Only what is said behind it is warned of.
        head = text[: text.find(best.anchor)] if is_error else text
        head = _EVENT_TYPE.sub("", head, count=1)
        is_warning = is_script and _WARNS.search(head) is not None
        if is_warning and _DEPRECATES.search(text):
            return None
        # What ended the program is its exception; a line tells of what a script did without, too.
        is_survivable = (
            best.cause.name in _SURVIVABLE
            or is_script
            or _TRIES.search(text) is not None
            or _NOBODY_LISTENS.search(text) is not None
            or (
                best.cause.whose in ("host", "network", "memory")
                and _DOES_WITHOUT.search(text) is not None
            )
            or _PASSED.match(text) is not None
        )
        said = {"error": cut(text.strip(), LONGEST_ERROR)}
        at = began([line])
        return Event(
            *(best.cause, line, at, said, best.weight, end, is_survivable, is_warning),
            is_line=True,
        )
    said = {"error": cut(text.strip(), LONGEST_ERROR)}
    form = next((cause for cause, pattern in forms() if pattern.search(text)), None)
    if form is not None:
        is_script = form.whose == "script" and form.level is Level.FAULT
        return Event(form, line, began([line]), said, len(text), end, is_script, is_line=True)
    kind = kind_by(text.strip(), is_own=False) if _WHAT.match(text) else causes()[LIBRARY_ERROR]
    is_check = _WHAT.match(text) is not None and text.startswith(_CHECK)
    if is_check and kind.name in GENERAL:
        # That a check failed is what all of them say.
        kind = causes()[LIBRARY_ERROR]
    if kind.name != LIBRARY_ERROR or is_check:
        return Event(kind, line, began([line]), said, 0, end, is_general=True)
    if _ERROR_LINE.search(text) and not _MEASURE.search(text):
        below = [other.text.strip() for other in lines[index + 1 : index + _CAUSES_BELOW]]
        if not (below and below[0].startswith(_CAUSED_BY)):
            below = below[:1] if text.rstrip().endswith(_GOES_ON) else []
        return Event(
            *(causes()[ERROR_LINE], line, began([line]), said, 0, end),
            is_hint=True,
            is_line=True,
            below=" ".join(below),
        )
    return None


def only_announces(hint: Event) -> bool:
    """Whether a line says that something failed, and neither what nor why."""
    return not hint.below and _ANNOUNCES.fullmatch(hint.line.text.strip()) is not None


def read_closer(hint: Event) -> None:
    """What a line that calls itself an error tells of the world: looked for only where nothing else is told."""
    text = hint.line.text
    if hint.cause.name == ERROR_LINE and not _WENT_ON.search(text):
        kind = kind_by(text.strip(), is_own=False)
        hint.cause = kind if kind.name in TOLD_BY_LINES else hint.cause
        reason = reason_of(whole_of(hint)) if hint.cause.name == ERROR_LINE else None
        hint.cause = hint.cause if reason is None else reason.cause


def last_resort(lines: Sequence[Line]) -> Event | None:
    """Of lines of which none is known as a fault, the first that has the form of one.

    In a few lines that somebody took to be the error, its class is enough."""
    is_short = len(lines) <= _FEW_LINES
    for line in lines:
        text = line.text.strip()
        if (_is_no_fault(text) and not _TELLING.search(text)) or _SHOWN.search(text):
            continue
        kind = kind_by(text, is_own=False)
        form = read(kind.name, text)
        cause = form.cause if form is not None else kind
        is_known = cause.name not in (LIBRARY_ERROR, *GENERAL) or reason_of(text) is not None
        if form is not None or (is_short and is_known):
            event = Event(
                cause, line, began([line]), {"error": cut(text, LONGEST_ERROR)}, is_line=True
            )
            name_what_it_is_about(event)
            return event
    return _first_statement(lines) if len(lines) <= _VERY_FEW_LINES else None


def _first_statement(lines: Sequence[Line]) -> Event | None:
    """Of one to three lines, which are all that somebody shows of an error, the first that states a fault, as an exception's
    message does."""
    for line in lines:
        text = line.text.strip()
        kind = kind_by(text, is_own=False)
        is_told = _is_no_fault(text) or _SHOWN.search(text) or _WARNS.search(text)
        found = None if is_told else stated(kind.name, text)
        # What says so little may be said of anything.
        if found is not None and not (found.is_weak and kind.name == LIBRARY_ERROR):
            values = {"error": cut(text, LONGEST_ERROR), **found.values}
            event = Event(found.cause, line, began([line]), values, is_line=True, is_stated=True)
            event.particular, event.is_literal = found.name, found.is_literal
            return event
    return None


def _is_no_fault(text: str) -> bool:
    """Whether a line is a warning or an information, by what it calls itself, or a command that is shown."""
    warning = _WARNING.search(text)
    if warning is not None and _ERROR_LINE.search(text[: warning.start()]) is None:
        return True
    is_shown = _INFORMATION.match(text) is not None or _COMPILES.match(text) is not None
    return is_shown or is_asked_back(text)
