"""The verdict and the numbers at the top of every report."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jumar.port.catalogue import SOURCE, Api, State, catalogue, nearest
from jumar.port.options import Options
from jumar.port.proof import Certificate
from jumar.port.records import FileResult, Finding, Severity, Words
from jumar.port.report.decisions import Decision, decisions, places
from jumar.port.tree import TreeResult
from jumar.port.trial_report import TrialReport

_ORDER = {Severity.WORK: 0, Severity.LIMIT: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class ApiRow:
    """A torch API that the repository uses, and its state on the chosen chip."""

    api: Api
    count: int
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What running the port has shown."""

    proof: Certificate | None = None
    trial: TrialReport | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that the reports show."""

    name: str
    root: Path
    options: Options
    files: int
    python_files: int
    results: tuple[FileResult, ...]
    added: tuple[tuple[str, bytes], ...]
    """Files that the port adds: path and content."""
    apis: tuple[ApiRow, ...]
    seconds: float
    proof: Certificate | None = None
    trial: TrialReport | None = None

    @property
    def changes(self) -> int:
        """How many edits were made."""
        return sum(len(result.changes) for result in self.results)

    @property
    def changed_files(self) -> int:
        """How many files differ from the source."""
        return sum(result.ported is not None for result in self.results)

    def count(self, severity: Severity) -> int:
        """How many findings have a severity."""
        return sum(f.severity is severity for _, f in self.findings())

    def count_outside_tests(self, severity: Severity) -> int:
        """How many findings have a severity, apart from those in the repository's tests."""
        return sum(
            place.finding.severity is severity and not place.in_tests
            for place in places(self.results)
        )

    @property
    def work_outside_tests(self) -> int:
        """How many places need work, apart from those in the repository's tests."""
        return self.count_outside_tests(Severity.WORK)

    @property
    def in_tests(self) -> int:
        """How many findings are in the repository's tests."""
        return sum(place.in_tests for place in places(self.results))

    @property
    def decisions(self) -> list[Decision]:
        """The findings grouped by what is decided once."""
        return decisions(places(self.results))

    def findings(self) -> Iterator[tuple[str, Finding]]:
        """Every finding with its file, most severe first."""
        every = [(r.path, f) for r in self.results for f in r.findings]
        yield from sorted(every, key=lambda pf: (_ORDER[pf[1].severity], pf[0], pf[1].line))

    @property
    def verdict(self) -> Words:
        """One line that sums up the port."""
        work, limits = self.work_outside_tests, self.count_outside_tests(Severity.LIMIT)
        if work:
            places = "1 place" if work == 1 else f"{work} places"
            return Words(f"needs work: {places}", f"需要人工处理：{work} 处")
        if limits:
            return Words("ready with limits", "可运行，有限制")
        return Words("ready", "可运行")

    @property
    def source_of_states(self) -> str:
        """Where the states of the APIs come from."""
        version = nearest(self.options.torch)
        return f"torch {version[0]}.{version[1]}: {SOURCE}"


def make(result: TreeResult, seconds: float, evidence: Evidence | None = None) -> Report:
    """Make a report from the results of the files."""
    evidence = evidence or Evidence()
    return Report(
        result.root.resolve().name,
        result.root,
        result.options,
        len(result.files),
        result.python_files,
        result.results,
        tuple(result.added_files()),
        tuple(_inventory(result)),
        seconds,
        evidence.proof,
        evidence.trial,
    )


def _inventory(result: TreeResult) -> Iterator[ApiRow]:
    counts: Counter[str] = Counter()
    first: dict[str, tuple[str, int]] = {}
    for file in result.results:
        for use in file.uses:
            counts[use.name] += use.count
            first.setdefault(use.name, (file.path, use.line))
    known = catalogue(result.options.torch, result.options.chip)
    for name in sorted(counts):
        api = known.api(name)
        if api.state is not State.NEUTRAL:
            yield ApiRow(api, counts[name], *first[name])
