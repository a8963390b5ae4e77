"""What the script shows, as a part of the answer."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jumar.spec.text import storable
from jumar.spec.verdicts import Evidence
from jumar.why.details import FIRST, WHAT, Detail
from jumar.why.event import Event
from jumar.why.knowledge import Cause, causes
from jumar.why.raised import Frame
from jumar.why.script.bounds import bounded
from jumar.why.script.checks import found_in
from jumar.why.script.code import Code
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.symbols import cut

_log = logging.getLogger(__name__)
_SHOWN = 300
_BETWEEN_RANKS = frozenset(
    ("rank-mismatch", "peer-late", "peer-lost", "peer-silent", "peer-finished", "stalled")
)
_LINE_ENDS = re.compile(r"\s*[\r\n]\s*")


@dataclass(frozen=True, slots=True)
class Shown:
    """What is added to an answer: sentences, and the lines of code that show it."""

    details: list[Detail] = field(default_factory=list[Detail])
    evidence: tuple[Evidence, ...] = ()


NOTHING_SHOWN = Shown()


def show_in_script(
    event: Event, code: Code | None, log: str, stacks: Sequence[Sequence[Frame]] = ()
) -> Shown:
    """What the script shows of an event: told in the place of what the log told, or with it; `log` is what stands around it.

    Of `stacks` the first counts, where a rank that has none met the others at an operation."""
    if code is None:
        return NOTHING_SHOWN
    error = event.values.get("error", event.line.text.strip())
    fault = Fault(
        event.cause.name, event.particular, error, event.values, log, rank=event.line.rank
    )
    others = stacks if event.cause.name in _BETWEEN_RANKS else ()
    stack = event.stack or next(filter(None, others), ())
    found = _found(fault, Script(code, stack))
    if found is None:
        return NOTHING_SHOWN
    cause = event.cause if found.cause is None else causes()[found.cause]
    evidence = _evidence(found, cause)
    if found.is_beside:
        to_both = (Detail(to, found.name, found.values) for to in (WHAT, FIRST))
        return Shown(list(to_both), evidence)
    event.cause, event.particular, event.also = cause, found.name, ()
    event.values = {**event.values, **found.values}
    event.is_stated = event.is_literal = event.is_general = event.is_hint = False
    event.is_settled = True
    return Shown(evidence=evidence)


def shown_alone(
    cause: str, code: Code, log: str
) -> tuple[Cause, Finding, tuple[Evidence, ...]] | None:
    """What the script shows where no line of a log tells of a fault: `cause` is what the platform saw, or `nothing`; `log` is how
    the logs end."""
    found = _found(Fault(cause, None, log.rpartition("\n")[2].strip(), {}, log), Script(code))
    if found is None:
        return None
    known = causes()[found.cause or cause]
    return known, found, _evidence(found, known)


def _found(fault: Fault, script: Script) -> Finding | None:
    """What the checks find in the time and the memory that a script may take."""
    try:
        with bounded():
            found = found_in(fault, script)
    except Exception:  # noqa: BLE001  whatever a script is, what its log tells is not lost
        _log.info("a script could not be read", exc_info=True)
        return None
    if found is None:
        return None
    return replace(found, values={name: _shown(one) for name, one in found.values.items()})


def _shown(text: str) -> str:
    """One line that can be sent: a line of code may be a whole file, and its strings hold what they like."""
    return cut(storable(_LINE_ENDS.sub(" ", text)), _SHOWN)


def _evidence(found: Finding, cause: Cause) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(file=_shown(one.file), line=one.line, text=_shown(one.text), cause=cause.name)
        for one in found.places
    )
