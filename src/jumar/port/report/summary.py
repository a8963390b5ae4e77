"""The verdict and the numbers at the top of every report."""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jumar.port.catalogue import SOURCE, Api, State, catalogue, nearest
from jumar.port.options import Options
from jumar.port.records import FileResult, Finding, Severity
from jumar.port.report import next_command
from jumar.port.report.decisions import Decision, decisions, places
from jumar.port.scan import FileKind
from jumar.port.tree import TreeResult

if TYPE_CHECKING:
    # Most runs neither prove nor try the port.
    from jumar.port.proof import Certificate
    from jumar.port.trial_report import TrialReport

_ORDER = {Severity.WORK: 0, Severity.LIMIT: 1, Severity.INFO: 2}


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


class Report(NamedTuple):
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
    proof: "Certificate | None" = None
    trial: "TrialReport | None" = None
    again: tuple[str, ...] = ()
    """The command that made the port."""
    python: tuple[str, ...] = ()
    """Every Python file of the source."""

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
            if self.count_outside_tests(Severity.LIMIT):
                return Conclusion(Code.READY, "ready with limits", "可运行，有限制")
            return Conclusion(Code.READY, "ready", "可运行")
        if proof is not None or self.trial is not None:
            return Conclusion(Code.PORTED, "ported, not proven yet", "已迁移，尚未证明")
        return Conclusion(Code.PORTED, "ported, not run yet", "已迁移，尚未运行")

    @property
    def how_to_prove(self) -> str:
        """The command that would earn `ready`; empty if there is nothing to earn.

        After a proof that failed, it is the same command again."""
        if not self.again:
            return ""
        if self.proof is not None:
            is_open = not self.proof.equal
            return next_command.repeating(self.again, self.proof.command) if is_open else ""
        if self.verdict.code is not Code.PORTED:
            return ""
        return next_command.proving(self.again, self.root, self.python)

    @property
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
        result.python_files,
        result.results,
        tuple(result.added_files()),
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
