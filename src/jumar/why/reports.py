"""What a report of CANN tells of the sign that was chosen: torch_npu and MindSpore put numbers before it that say less.

A code such as 507899 or ERR02200 only says which layer failed. The report beside it has the reason, with ranks, cards, operators and values."""

import re
from collections.abc import Iterator, Sequence

from jumar.why.cann import Report, begins, logged, report_in
from jumar.why.details import FIRST, WHAT, Detail
from jumar.why.event import Event
from jumar.why.knowledge import causes
from jumar.why.particulars import read_below
from jumar.why.reading import Line
from jumar.why.signs import Sign, before, below

_FORMS = "cann-inner"
"""The cause under which the forms of reports are kept."""
# Causes that a number alone may have told.
_OF_CARDS = frozenset(
    (
        *("cann-inner", "cann-driver", "cann-resource", "cann-context", "cann-address"),
        *("cann-graph", "cann-compiler", "cann-environment", "kernel-async", "kernel-aicore"),
        *("kernel-aicpu", "kernel-arguments", "kernel-launch", "kernel-timeout", "kernel-missing"),
        *("kernel-package", "kernel-compile", "kernel-copy", "collective-failed"),
        *("collective-argument", "group-start", "device-open", "device-busy", "device-number"),
        *("device-lost", "device-memory", "rank-setup", "rank-table", "rank-mismatch"),
        *("network-setup", "network-connect", "network-rdma", "network-tls", "port-taken"),
        *("peer-late", "peer-lost"),
    )
)
# What an exception's message is read for says nothing more where the report is known.
_OF_EXCEPTIONS = frozenset(("advice", "names", "inside", "between"))
_SPEAKS_OF_CARDS = re.compile(
    r"(?i)npu|acl|hccl|\bhcom|ascend|error code|inner error|\bcann\b|\bge(?:init)?\b|graph|stream|\boperator\b|\bdevice|E[A-Z1-9]\d{4}"
    r"|^[\w.]*Error: *$|^\[ERROR\]"
)
_NEXT = 3
"""Bytes between a line and the next."""
_OPERATOR = re.compile(r"\bcall aclnn\w+ failed")
_OF_MEMORY = "device-memory"
_REFUSED = "kernel-arguments"
_SAID, _ADVISED = "cann", "cann-advice"


def name_by_report(chosen: Sign) -> None:
    """What the report beside a sign tells, if there is one."""
    event = chosen.event
    # What a script raises itself is not explained by what CANN says while the program ends.
    if not (event.cause.name in _OF_CARDS or _SPEAKS_OF_CARDS.search(event.line.text)):
        return
    report = _report_of(chosen)
    facts = "" if report is None else report.facts
    form = read_below(_FORMS, f"{facts}\n{logged(_above(chosen))}")
    # Who fills the card is known by the numbers of a message, which CANN's report does not have.
    is_counted = event.particular is not None and event.cause.name == _OF_MEMORY
    if form is not None and not (is_counted and form.cause is event.cause):
        event.also = tuple(one for one in event.also if one not in _OF_EXCEPTIONS)
        event.cause, event.particular = form.cause, form.name
        event.is_general = event.is_hint = event.is_stated = event.is_literal = False
        event.values = {**event.values, **form.values}
        return
    if form is None and report is not None and event.particular is None:
        if event.cause.name == _FORMS and report.is_rule and _OPERATOR.search(event.line.text):
            event.cause = causes()[_REFUSED]
        event.values |= {_SAID: report.said} if report.said else {}
        event.values |= {_ADVISED: report.advised} if report.advised else {}


def has_report(event: Event) -> bool:
    """Whether a report says what it was: the message before it is a number."""
    return _SAID in event.values


def told_by_report(event: Event) -> Iterator[Detail]:
    """What the report says and advises, where no form of it is known."""
    if _SAID in event.values:
        yield Detail(WHAT, "cann-said", {"said": event.values[_SAID]})
        if event.cause.name == _REFUSED:
            yield Detail(FIRST, "cann-rule", {})
    if _ADVISED in event.values and "advice" not in event.also:
        yield Detail(FIRST, "cann-advised", {"said": event.values[_ADVISED]})


def _report_of(chosen: Sign) -> Report | None:
    event = chosen.event
    lines = [line for line in below(chosen) if _is_by(line, event)]
    own = "\n".join(line.text for line in lines if line.offset <= event.end + _NEXT)
    found = report_in(lines)
    if not (event.cause.name in _OF_CARDS or begins(own)):
        return None
    if found is not None and found.has_code:
        return found
    # A number alone tells less than what was said before.
    above = _last([line for line in before(chosen) if _is_by(line, event)])
    return report_in(above) or found


def _above(chosen: Sign) -> Iterator[str]:
    return (line.text for line in before(chosen) if _is_by(line, chosen.event))


def _is_by(line: Line, event: Event) -> bool:
    return line.writer in (event.line.writer, "")


def _last(lines: Sequence[Line]) -> Sequence[Line]:
    """From the last line on with which a report begins."""
    starts = [at for at, line in enumerate(lines) if begins(line.text)]
    return lines[starts[-1] :] if starts else ()
