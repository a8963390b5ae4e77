"""Which exception of a chain says best why a program ended.

Python shows them all: the one that was raised for another ("the direct cause"), and the one that was raised while another was
handled, be it on purpose, by another attempt, by a slip, or on the way out."""

import re

from jumar.why.event import Known
from jumar.why.exception import OF_VERSIONS, of_exception
from jumar.why.knowledge import LIBRARY_ERROR, PYTHON_ERROR, Cause, Level
from jumar.why.raised import Raised

# What fails where code only tries whether a value is of a kind.
_TRIED = frozenset(("number-text", "encoding", "attribute-missing", "key-missing"))
# What only says that something failed for an exception that was shown before.
_WRAPS = re.compile(
    r"(?i)\b(?:an )?error (?:occurred )?(?:while|during|when|in|executing)\b|see (?:the )?(?:above|original)|Unable to run|failed to (?:run|execute)\b"
)
# That a server answered, and with which number.
_STATUS = re.compile(
    r"HTTP(?:Status)?Error: (?:\d{3} (?:Client|Server) Error|(?:Client|Server) error '\d{3})"
)
_INTERRUPTED = "KeyboardInterrupt"
_SLIPS = frozenset(("NameError", "UnboundLocalError"))
# Slips as well, where what was handled is known.
_OTHER_SLIPS = frozenset(("AttributeError", "TypeError"))
# An exception that is taken for a text or for another class.
_MISUSED = re.compile(
    r"^(?:Type|Attribute)Error: .*['\"](?:\w+Error|Exception|KeyboardInterrupt|SystemExit)['\"]"
)
# What is known of a message only because the code's authors wrote it.
_OWN_WORDS = frozenset((PYTHON_ERROR, "checked", "refused"))
# What the machine lacks: whoever catches that tries a way around it, and no way around says more.
_LACKS_WHOSE = frozenset(("memory", "card"))
_LACKS = frozenset(("disk-full", "disk-broken", "file-read-only", "host-allocation"))
# What is called on the way out, whatever happened: by its name in a frame, or in a statement.
_CLEANS = (
    r"(?:(?:dist_)?barrier|wait_for_everyone|on_exception|on_train_end|on_fit_end|(?:_?run_|async_)?(?:tear_?down|clean_?up|shut_?down|finali[sz]e|finish|destroy|terminate|close|release"
    r"|disconnect)(?:_\w{1,40})?)"
)
_CLEANING_FRAME = re.compile(rf", in _{{0,2}}{_CLEANS}$", re.MULTILINE)
_CLEANING_CALL = re.compile(rf"^(?:\w{{1,40}}\.){{0,4}}_{{0,2}}{_CLEANS}\(", re.MULTILINE)


def kept(raised: list[Raised], known: Known) -> list[Raised]:
    """Of a chain, the one that says it best.

    A cause that is named as such is the fault. One that was being handled is mostly a detail of the
    next, unless that one is no more than a lost peer or a fault of cleaning up. What was raised aside counts
    only alone."""
    kept: list[Raised] = []
    for one in [one for one in raised if not one.is_aside] or raised:
        if one.is_effect and kept:
            if not _tells_more(one, kept[-1], known):
                continue
            one.handled = kept.pop().said
        if one.replaces and kept:
            if (
                one.is_cleaning
                or _cleans_up(one, kept[-1])
                or kept[-1].name == _INTERRUPTED
                or _is_slip(one, kept[-1], known)
                or _says_less(one, kept[-1], known)
            ):
                continue
            one.handled = kept.pop().said
        kept.append(one)
    return kept


def _cleans_up(one: Raised, before: Raised) -> bool:
    """Whether an exception came from what is called on the way out, in which the one before was not raised."""
    ways_out = (
        (_CLEANING_FRAME, one.frames, before.frames),
        (_CLEANING_CALL, one.quoted, before.quoted),
    )
    return any(
        set(pattern.findall(text)) - set(pattern.findall(handled))
        for pattern, text, handled in ways_out
    )


def _tells_more(one: Raised, cause: Raised, known: Known) -> bool:
    """Whether what followed from an exception says more than that does: `Empty` of a queue says nothing."""
    if _WRAPS.search(one.said) and not cause.is_mute:
        return False
    event, before = of_exception(one, known), of_exception(cause, known)
    if before.particular is None and "advice" in event.also and "advice" not in before.also:
        # It was raised to say what to do.
        return True
    if before.cause.name in (PYTHON_ERROR, LIBRARY_ERROR) and event.weight:
        return True
    if event.particular is not None and _STATUS.search(cause.said):
        # A client knows what a status means there.
        return event.cause is before.cause
    is_same_file = _last_file(one) == _last_file(cause)
    if is_same_file and event.particular is not None and event.cause is before.cause:
        # It says the same, with the names that its caller knew.
        return True
    if event.particular is not None and (
        before.cause.whose == "network" or before.cause.name in _TRIED
    ):
        # What could not be fetched or read so was tried otherwise, too, and the last says what was meant.
        return True
    return before.level > event.level


def _last_file(one: Raised) -> str:
    return one.frames.rpartition("\n")[2].partition(", line")[0]


def _is_slip(one: Raised, before: Raised, known: Known) -> bool:
    """Whether the code that was to handle an exception only has a slip of its own: what it could not tell is the first."""
    if one.is_library:
        return False
    if _MISUSED.search(one.said):
        return True
    handled = of_exception(before, known)
    is_tried = handled.level > Level.FAULT or handled.cause.name in _TRIED | OF_VERSIONS
    is_known = handled.weight > 0 or handled.particular is not None
    return not is_tried and (one.name in _SLIPS or (is_known and one.name in _OTHER_SLIPS))


def _says_less(one: Raised, before: Raised, known: Known) -> bool:
    """Whether an exception says less than the one that was being handled when it was raised."""
    event, handled = of_exception(one, known), of_exception(before, known)
    if event.level is not handled.level:
        return event.level > handled.level
    if event.cause is not handled.cause and _is_of_machine(handled.cause):
        return True
    is_read = event.particular is not None and event.cause.name not in _OWN_WORDS
    if event.weight > 0 or is_read:
        return False
    is_form = handled.particular is not None and not handled.is_stated
    is_tried = handled.cause.name in _TRIED | OF_VERSIONS | _OWN_WORDS
    if is_tried and one.source.startswith("raise ") and not one.is_library:
        # What was only tried, and what the authors say of it, who knew where.
        return False
    return handled.weight > 0 or (is_form and not is_tried)


def _is_of_machine(cause: Cause) -> bool:
    return cause.whose in _LACKS_WHOSE or cause.name in _LACKS
