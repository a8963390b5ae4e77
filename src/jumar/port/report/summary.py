"""What every report tells: the verdict and the numbers at its top, the findings grouped by decision, and the
command that would prove the port.

Whether to replace a package is one decision, however many files import it, requirement lists name it
and documents install it. Places in tests are kept apart."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jumar.port.catalogue import SOURCE, Api, State, catalogue, nearest
from jumar.port.options import Options
from jumar.port.packages import of_distribution, package_of
from jumar.port.patterns import lazy_pattern
from jumar.port.records import WHOLE_FILE, Effort, FileResult, Finding, Kind, Severity, Words
from jumar.port.rules import titles
from jumar.port.scan import FileKind, is_test
from jumar.port.tree import TreeResult

if TYPE_CHECKING:
    # Most runs neither prove nor try the port.
    from jumar.port.proof import Certificate
    from jumar.port.trial_report import TrialReport

_ABOUT_ONE_API = lazy_pattern(r"JP(?:8\d\d|2\d\d)")
"""Rules whose findings share their advice but are each about the API that they name."""
_SEVERITIES = (Severity.WORK, Severity.LIMIT, Severity.INFO)
_EFFORTS = (Effort.REWRITE, Effort.HOURS, Effort.MINUTES, Effort.NONE)
_TRAINS = re.compile(rb"\.backward\(|\bTrainer\(|\.fit\(")
_BY_NAME = re.compile(r"(pre|fine_?)?(train|tun)|main|run", re.IGNORECASE)
_TEST = re.compile(r"(^|/)(tests?/|test_|conftest)")
_FROM_ITS_FOLDER = lazy_pattern(rb"sys\.path\.(?:append|insert)\([^)\n]*[\"']\.\.[/\"']")
"""A script that finds its packages by a path relative to the current folder."""
_MOST_READ = 40
_UNKNOWN = ("python", "YOUR_TRAINING_SCRIPT.py")


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


class Code(StrEnum):
    """What a port has earned."""

    READY = "ready"
    """It was proven."""
    PORTED = "ported"
    """Nothing is known to fail; nobody has shown that it runs."""
    NEEDS_WORK = "needs-work"


class Conclusion(NamedTuple):
    """One line that sums up the port."""

    code: Code
    en: str
    zh: str


class ApiRow(NamedTuple):
    """A torch API that the repository uses, and its state on the chosen chip."""

    api: Api
    times: int
    file: str
    line: int


class Evidence(NamedTuple):
    """What running the port has shown."""

    proof: "Certificate | None" = None
    trial: "TrialReport | None" = None


@dataclass(frozen=True)
class Report:
    """Everything that the reports show; what several of them show is worked out once."""

    name: str
    root: Path
    options: Options
    files: int
    results: tuple[FileResult, ...]
    added: tuple[tuple[str, bytes], ...]
    """Files that the port adds: path and content."""
    apis: tuple[ApiRow, ...]
    seconds: float
    proof: "Certificate | None" = None
    trial: "TrialReport | None" = None
    again: tuple[str, ...] = ()
    """The command that made the port."""
    python: tuple[str, ...] = ()
    """Every Python file of the source."""

    @cached_property
    def changes(self) -> int:
        """How many edits were made."""
        return sum(len(result.changes) for result in self.results)

    @cached_property
    def changed_files(self) -> int:
        """How many files differ from the source."""
        return sum(result.ported is not None for result in self.results)

    @cached_property
    def places(self) -> list[Place]:
        """Every finding with its place."""
        return [
            Place(result.path, finding, in_tests)
            for result in self.results
            for in_tests in (is_test(result.path, result.imports),)
            for finding in result.findings
        ]

    @cached_property
    def counts(self) -> Counter[Severity]:
        """How many findings have a severity."""
        return Counter(place.finding.severity for place in self.places)

    @cached_property
    def outside_tests(self) -> Counter[Severity]:
        """How many findings have a severity, apart from those in the repository's tests."""
        return Counter(place.finding.severity for place in self.places if not place.in_tests)

    @property
    def work_outside_tests(self) -> int:
        """How many places need work, apart from those in the repository's tests."""
        return self.outside_tests[Severity.WORK]

    @cached_property
    def in_tests(self) -> int:
        """How many findings are in the repository's tests."""
        return sum(place.in_tests for place in self.places)

    @cached_property
    def decisions(self) -> list[Decision]:
        """The findings grouped by what is decided once."""
        return _grouped(self.places)

    @cached_property
    def findings(self) -> list[tuple[str, Finding]]:
        """Every finding with its file, most severe first."""
        every = [(place.path, place.finding) for place in self.places]
        return sorted(every, key=lambda pf: (_SEVERITIES.index(pf[1].severity), pf[0], pf[1].line))

    @cached_property
    def verdict(self) -> Conclusion:
        """One line that sums up the port: what it has earned, and no more."""
        work, proof = self.work_outside_tests, self.proof
        if work:
            places = "1 place" if work == 1 else f"{work} places"
            return Conclusion(Code.NEEDS_WORK, f"needs work: {places}", f"需要人工处理：{work} 处")
        if proof is not None and proof.is_the_ports_fault:
            return Conclusion(
                Code.NEEDS_WORK, "needs work: the proof failed", "需要人工处理：未通过证明"
            )
        if proof is not None and proof.equal:
            if self.outside_tests[Severity.LIMIT]:
                return Conclusion(Code.READY, "ready with limits", "可运行，有限制")
            return Conclusion(Code.READY, "ready", "可运行")
        if proof is not None or self.trial is not None:
            return Conclusion(Code.PORTED, "ported, not proven yet", "已迁移，尚未证明")
        return Conclusion(Code.PORTED, "ported, not run yet", "已迁移，尚未运行")

    @cached_property
    def how_to_prove(self) -> str:
        """The command that would earn `ready`; empty if there is nothing to earn.

        After a proof that failed, it is the same command again."""
        if not self.again:
            return ""
        if self.proof is not None:
            is_open = not self.proof.equal
            return _repeating(self.again, self.proof.command) if is_open else ""
        if self.verdict.code is not Code.PORTED:
            return ""
        return _proving(self.again, self.root, self.python)

    @cached_property
    def source_of_states(self) -> str:
        """Where the states of the APIs come from."""
        version = nearest(self.options.torch)
        return f"torch {version[0]}.{version[1]}: {SOURCE}"


def make(
    result: TreeResult,
    seconds: float,
    evidence: Evidence | None = None,
    again: tuple[str, ...] = (),
) -> Report:
    """Make a report from the results of the files."""
    evidence = evidence or Evidence()
    return Report(
        result.root.resolve().name,
        result.root,
        result.options,
        len(result.files),
        result.results,
        tuple(result.added_files),
        tuple(_inventory(result)),
        seconds,
        evidence.proof,
        evidence.trial,
        again,
        tuple(found.path for found in result.files if found.kind is FileKind.PYTHON),
    )


def _inventory(result: TreeResult) -> Iterator[ApiRow]:
    counts: Counter[str] = Counter()
    first: dict[str, tuple[str, int]] = {}
    for file in result.results:
        for use in file.uses:
            counts[use.name] += use.times
            first.setdefault(use.name, (file.path, use.line))
    known = catalogue(result.options.torch, result.options.chip)
    for name in sorted(counts):
        api = known.api(name)
        if api.state is not State.NEUTRAL:
            yield ApiRow(api, counts[name], *first[name])


def _grouped(found: Iterable[Place]) -> list[Decision]:
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


def _proving(again: Sequence[str], root: Path, paths: Sequence[str]) -> str:
    """The words `again`, which made the port, with a proof by the most likely training command."""
    return _repeating(again, _training(root, paths))


def _repeating(again: Sequence[str], command: Sequence[str]) -> str:
    """The words `again` with a proof by this command."""
    return shlex.join([*again, "--prove", "--", *command])


def _training(root: Path, paths: Sequence[str]) -> Sequence[str]:
    """A script that trains, or else the tests."""
    scripts = [path for path in paths if path.endswith(".py") and not _TEST.search(path)]
    texts = {path: _text(root / path) for path in sorted(scripts, key=_likelihood)[:_MOST_READ]}
    for is_likely in (_trains_itself, _starts_training):
        for path, text in texts.items():
            if is_likely(path, text):
                return _started(path, text)
    tests = sorted(path for path in paths if re.search(r"(^|/)test_\w+\.py$", path))
    if tests:
        folder = tests[0].partition("/")[0] if "/" in tests[0] else "."
        return ("python", "-m", "pytest", folder)
    return _UNKNOWN


def _started(path: str, text: bytes) -> Sequence[str]:
    folder, _, name = path.rpartition("/")
    if folder and _FROM_ITS_FOLDER.search(text):
        return ("sh", "-c", f"cd {shlex.quote(folder)} && python {shlex.quote(name)}")
    return ("python", path)


def _likelihood(path: str) -> tuple[bool, int, bool, str]:
    name = path.rpartition("/")[2]
    return not _BY_NAME.match(name), path.count("/"), not name.startswith("train"), path


def _trains_itself(path: str, text: bytes) -> bool:
    # A module that only defines things does nothing when it is run; scripts are named for what they do.
    is_script = b"__main__" in text or _BY_NAME.match(path.rpartition("/")[2]) is not None
    return is_script and _TRAINS.search(text) is not None


def _starts_training(path: str, text: bytes) -> bool:
    return b"__main__" in text and "train" in path.rpartition("/")[2]


def _text(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
