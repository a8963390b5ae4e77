"""What the script shows, as a part of the answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jumar.spec.verdicts import Evidence
from jumar.why.details import FIRST, WHAT, Detail
from jumar.why.event import Event
from jumar.why.knowledge import Cause, causes
from jumar.why.raised import Frame
from jumar.why.script.checks import found_in
from jumar.why.script.code import Code
from jumar.why.script.reading import Fault, Finding, Script

_SHOWN = 300
_BETWEEN_RANKS = frozenset(
    ("rank-mismatch", "peer-late", "peer-lost", "peer-silent", "peer-finished", "stalled")
)


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
    found = found_in(fault, Script(code, stack))
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
    found = found_in(Fault(cause, None, log.rpartition("\n")[2].strip(), {}, log), Script(code))
    if found is None:
        return None
    known = causes()[found.cause or cause]
    return known, found, _evidence(found, known)


def _evidence(found: Finding, cause: Cause) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(file=one.file, line=one.line, text=one.text[:_SHOWN], cause=cause.name)
        for one in found.places
    )
