"""Run all checks in parallel and gather their findings, within one time limit.

Checks run in daemon threads: one that hangs in the kernel (a dead file system, a stuck driver) is
reported and abandoned; it delays neither the report nor the end of the process."""

import logging
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from jumar.errors import BadInput
from jumar.host.checks import (
    cann,
    cards,
    driver,
    frameworks,
    network,
    nvidia,
    operators,
    python,
    resources,
    use,
    user,
    variables,
)
from jumar.host.findings import Check, Finding, Verdict, unknown
from jumar.host.patient import Patient
from jumar.host.survey import has_card

_SAYS_IT_ONCE = "card-driver"
log = logging.getLogger(__name__)
_MODULES = (
    cards,
    driver,
    use,
    cann,
    operators,
    nvidia,
    python,
    frameworks,
    variables,
    network,
    resources,
    user,
)
# A family's checks stand together, wherever they are written.
_FAMILIES = tuple(dict.fromkeys(check.family for module in _MODULES for check in module.CHECKS))
CHECKS: tuple[Check, ...] = tuple(
    sorted(
        (check for module in _MODULES for check in module.CHECKS),
        key=lambda check: _FAMILIES.index(check.family),
    )
)


@dataclass(frozen=True, slots=True)
class Result:
    """One finding and the check it comes from."""

    check: str
    family: str
    verdict: Verdict
    seen: str
    fix: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, in the order of the checks."""

    results: tuple[Result, ...]

    def count(self, verdict: Verdict) -> int:
        """How many results have this verdict."""
        return sum(result.verdict is verdict for result in self.results)

    @property
    def is_well(self) -> bool:
        """Whether nothing fails."""
        return not self.count(Verdict.FAIL)


def choose(names: Sequence[str]) -> tuple[Check, ...]:
    """The checks with these names or families; all if none is named."""
    known = {check.name for check in CHECKS} | {check.family for check in CHECKS}
    for name in names:
        if name not in known:
            raise BadInput(
                f"there is no check {name!r}",
                hint=f"checks: {', '.join(check.name for check in CHECKS)}",
            )
    return tuple(
        check for check in CHECKS if not names or check.name in names or check.family in names
    )


def examine(patient: Patient, checks: Sequence[Check] = CHECKS) -> Report:
    """Run the checks. Never raises and never takes much longer than `limits.all_s`."""
    answers: queue.SimpleQueue[tuple[int, list[Finding]]] = queue.SimpleQueue()
    for place, check in enumerate(checks):
        threading.Thread(
            target=_run, args=(place, check, patient, answers), name=check.name, daemon=True
        ).start()
    deadline = time.monotonic() + patient.limits.all_s
    found: dict[int, list[Finding]] = {}
    while len(found) < len(checks):
        try:
            place, findings = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        found[place] = findings
    late = [
        unknown(f"no answer within {patient.limits.all_s:g} s", "check it by hand: it may hang")
    ]
    names = {check.name for check in checks}
    is_said_once = _SAYS_IT_ONCE in names and not has_card(patient)
    return Report(
        tuple(
            Result(check.name, check.family, finding.verdict, finding.seen, finding.fix)
            for place, check in enumerate(checks)
            for finding in found.get(place, late)
            if not (is_said_once and check.needs_card and finding.verdict is Verdict.UNKNOWN)
        )
    )


def _run(
    place: int,
    check: Check,
    patient: Patient,
    answers: "queue.SimpleQueue[tuple[int, list[Finding]]]",
) -> None:
    try:
        findings = list(check.run(patient))
    except Exception as error:
        log.debug("check %s broke", check.name, exc_info=True)
        findings = [unknown(f"the check itself failed: {type(error).__name__}: {error}")]
    answers.put((place, findings))
