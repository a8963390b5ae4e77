"""Findings grouped by decision: what is decided once, with all the places that it concerns.

Whether to replace a package is one decision, however many files import it, requirement lists name it
and documents install it. Places in tests are kept apart."""

from collections.abc import Iterable
from typing import NamedTuple

from jumar.port.packages import of_distribution, package_of
from jumar.port.patterns import lazy_pattern
from jumar.port.records import WHOLE_FILE, Effort, FileResult, Finding, Kind, Severity, Words
from jumar.port.rules import titles
from jumar.port.scan import is_test

_ABOUT_ONE_API = lazy_pattern(r"JP(?:8\d\d|2\d\d)")
"""Rules whose findings share their advice but are each about the API that they name."""
_SEVERITIES = (Severity.WORK, Severity.LIMIT, Severity.INFO)
_EFFORTS = (Effort.REWRITE, Effort.HOURS, Effort.MINUTES, Effort.NONE)


class Place(NamedTuple):
    """A finding and the file that it is in."""

    path: str
    finding: Finding
    in_tests: bool


class Decision(NamedTuple):
    """One thing to decide, and every place that it concerns."""

    title: Words
    places: tuple[Place, ...]
    """The most severe first, those in tests last."""

    @property
    def lead(self) -> Finding:
        """The finding that speaks for all of them."""
        return self.places[0].finding

    @property
    def severity(self) -> Severity:
        """The greatest severity outside tests; in tests if there is no other place."""
        return self.lead.severity

    @property
    def effort(self) -> Effort:
        """The greatest effort of the places that are as severe as the decision."""
        alike = {p.finding.effort for p in self.places if p.finding.severity is self.severity}
        return min(alike, key=_EFFORTS.index)

    @property
    def in_tests(self) -> bool:
        """Whether it only concerns tests."""
        return all(place.in_tests for place in self.places)


def places(results: Iterable[FileResult]) -> list[Place]:
    """Every finding with its place."""
    return [
        Place(result.path, finding, in_tests)
        for result in results
        for in_tests in (is_test(result.path, result.imports),)
        for finding in result.findings
    ]


def decisions(found: Iterable[Place]) -> list[Decision]:
    """The findings grouped: the most severe first, then those with the most places."""
    groups: dict[tuple[str, str], list[Place]] = {}
    for place in found:
        groups.setdefault(_key(place.finding), []).append(place)
    made = [_decision(group) for group in groups.values()]
    return sorted(made, key=_order)


def _key(finding: Finding) -> tuple[str, str]:
    package = _package(finding)
    if package:
        return "package", package
    if _ABOUT_ONE_API.match(finding.code):
        return "api", finding.subject
    return "advice", finding.advice.en


def _package(finding: Finding) -> str:
    """The package that a finding is about, whether it is imported, required or installed."""
    subject = finding.subject.partition(":")[0]
    known = of_distribution(subject)
    if known is None and finding.kind is Kind.PACKAGE:
        known = package_of(subject)
    return known.module.partition(".")[0] if known is not None else ""


def _decision(group: list[Place]) -> Decision:
    group.sort(key=lambda p: (p.in_tests, _SEVERITIES.index(p.finding.severity), p.path))
    package = _package(group[0].finding)
    subjects = {place.finding.subject for place in group}
    if package:
        return Decision(Words(package, package), tuple(group))
    if len(subjects) == 1 and WHOLE_FILE not in subjects:
        only = subjects.pop()
        return Decision(Words(only, only), tuple(group))
    code = group[0].finding.code
    return Decision(titles().get(code, Words(code, code)), tuple(group))


def _order(decision: Decision) -> tuple[bool, int, int, str]:
    rank = _SEVERITIES.index(decision.severity)
    return decision.in_tests, rank, -len(decision.places), decision.title.en
