"""Whether the port computes the same as the original: two runs compared, giving a certificate.

This room only compares; whoever runs the two (the original on the CPU, the port on simulated NPUs)
passes in what each run recorded, in order."""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from jumar.port.proof_runs import Failure, Kind, Mark, RunResult, gap, without_outputs

TOLERANCE = 1e-5
_FIGURES = ("sum", "norm", "sum of the first half")


class Verdict(StrEnum):
    """What the comparison says."""

    PROVEN = "proven"
    DIFFERS = "differs"
    NOT_DETERMINISTIC = "not-deterministic"
    NO_STEPS = "no-steps"
    NO_NUMBERS = "no-numbers"
    """Every loss, or every parameter, is NaN or infinite in both runs."""
    NO_DEVICE = "no-device"
    """The port trained on the CPU, so nothing was tested."""
    ORIGINAL_FAILED = "original-failed"
    PORT_FAILED = "port-failed"
    BOTH_FAILED = "both-failed"
    TESTS_FAIL = "tests-fail"
    """Tests of the repository pass with the original, but not with the port."""
    NO_TESTS = "no-tests"
    """None passes with the original."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where the two runs diverge."""

    what: str
    original: str
    ported: str
    where: str = ""
    """In the port."""
    source: str = ""
    original_where: str = ""
    rank: int = 0


@dataclass(frozen=True, slots=True)
class LossPair:
    """One loss of rank 0 in both runs."""

    step: int
    original: float
    ported: float


@dataclass(frozen=True, slots=True)
class TestCounts:
    """The repository's own tests in both runs."""

    __test__ = False

    passed: int
    """On both sides."""
    original: int
    """On the original's side."""
    total: int
    """All that the original ran, whatever their result."""
    broken: tuple[str, ...] = ()
    """Tests that pass on the original's side only."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the comparison says; it is part of the report."""

    verdict: Verdict
    original: str
    ported: str
    command: tuple[str, ...]
    tolerance: float
    steps: int
    ranks: int
    parameters: int
    losses: tuple[LossPair, ...]
    largest: float
    """The largest relative difference found."""
    bitwise: bool
    """Everything that was compared is equal to the last bit."""
    difference: Difference | None = None
    origin: Difference | None = None
    """The first module whose output differs, if that comes before the difference."""
    original_failure: Failure | None = None
    ported_failure: Failure | None = None
    seconds: tuple[float, float] = (0.0, 0.0)
    cut: bool = False
    """The time limit ended a run, so that fewer steps were compared."""
    not_finite: int = 0
    """How many losses are NaN or infinite in both runs."""
    runs: int = 1
    """How often each side was run."""
    noise: float | None = None
    """How far losses of the original's own runs are apart, if no two runs are alike."""
    not_run: tuple[tuple[str, str], ...] = ()
    """Packages that NPUs do not have and where they are needed: a proof that holds cannot have got there."""
    tests: "TestCounts | None" = None
    """Set if the command runs tests: nothing else is compared then."""

    @property
    def equal(self) -> bool:
        """Whether the port is proven to compute the same."""
        return self.verdict is Verdict.PROVEN

    @property
    def is_the_ports_fault(self) -> bool:
        """Whether the port went wrong where the original did not."""
        return self.verdict in (Verdict.DIFFERS, Verdict.PORT_FAILED, Verdict.TESTS_FAIL)


def compare(original: RunResult, ported: RunResult, *, tolerance: float = TOLERANCE) -> Certificate:
    """Compare two runs in order: losses, and parameters after each step."""
    found = _Comparison(tolerance)
    cut = original.cut or ported.cut
    for rank, (left, right) in enumerate(zip(original.ranks, ported.ranks, strict=False)):
        found.walk(rank, left, right, may_be_short=cut)
    failure = ported.failure or original.failure
    is_short = len(original.ranks) != len(ported.ranks) and not cut
    if is_short and found.difference is None and not failure:
        counts = str(len(original.ranks)), str(len(ported.ranks))
        found.difference = Difference("number of training processes", *counts)
    # If one run failed, the other went on: how far it got is not a difference.
    difference = None if failure and found.ended_early else found.difference
    return Certificate(
        verdict=_verdict(original, ported, difference, found),
        original=original.device,
        ported=ported.device,
        command=original.command,
        tolerance=tolerance,
        steps=found.steps,
        ranks=min(len(original.ranks), len(ported.ranks)),
        parameters=len(found.parameters),
        losses=tuple(found.losses),
        largest=found.largest,
        bitwise=found.bitwise,
        difference=difference,
        origin=found.origin if difference is not None else None,
        original_failure=original.failure,
        ported_failure=ported.failure,
        seconds=(original.seconds, ported.seconds),
        cut=cut,
        not_finite=found.not_finite,
    )


def _verdict(
    original: RunResult, ported: RunResult, difference: Difference | None, found: "_Comparison"
) -> Verdict:
    if original.failure and ported.failure:
        return Verdict.BOTH_FAILED
    if original.failure:
        return Verdict.ORIGINAL_FAILED
    if ported.failure:
        return Verdict.PORT_FAILED
    if difference is not None:
        return Verdict.DIFFERS
    if not found.steps and not found.losses:
        return Verdict.NO_STEPS
    if not found.has_numbers:
        return Verdict.NO_NUMBERS
    return Verdict.PROVEN if ported.used - {"cpu"} else Verdict.NO_DEVICE


class _Comparison:
    """Walks along two lists of marks and keeps what it finds."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.largest = 0.0
        self.bitwise = True
        self.steps = 0
        self.parameters: set[str] = set()
        self.losses: list[LossPair] = []
        self.difference: Difference | None = None
        self.origin: Difference | None = None
        self._differing: tuple[Mark, Mark] | None = None
        self.ended_early = False
        self.not_finite = 0
        self._finite: set[Kind] = set()
        self._kinds: set[Kind] = set()

    @property
    def has_numbers(self) -> bool:
        """Whether there was a number among the losses and among the parameters."""
        return self._kinds == self._finite

    def walk(
        self, rank: int, left: tuple[Mark, ...], right: tuple[Mark, ...], *, may_be_short: bool
    ) -> None:
        had_one = self.difference is not None
        a, b = without_outputs(left), without_outputs(right)
        steps = losses = 0
        for mine, theirs in zip(a, b, strict=False):
            if (mine.kind, mine.what) != (theirs.kind, theirs.what):
                self._part(rank, "order of events", _words(mine), _words(theirs), mine, theirs)
                break
            if mine.kind is Kind.STEP:
                steps += 1
                continue
            if mine.kind is Kind.LOSS:
                losses += 1
                if rank == 0:
                    pair = LossPair(steps + 1, mine.values[0], theirs.values[0])
                    self.losses.append(pair)
            else:
                self.parameters.add(f"{rank} {mine.what}")
            self._figures(rank, label(mine, losses, steps), mine, theirs)
        else:
            if len(a) != len(b) and not may_be_short:
                self._count(rank, a, b)
        if rank == 0:
            self.steps = steps
        if self.difference is not None and not had_one:
            self._locate(rank, left, right)

    def _figures(self, rank: int, label: str, mine: Mark, theirs: Mark) -> None:
        apart = gap(mine.values, theirs.values)
        self._kinds.add(mine.kind)
        if all(map(math.isfinite, mine.values)):
            self._finite.add(mine.kind)
        elif mine.kind is Kind.LOSS and apart == 0:
            self.not_finite += 1
        self.largest = max(self.largest, apart)
        self.bitwise = self.bitwise and apart == 0 and mine.digest == theirs.digest
        if apart > self.tolerance:
            self._part(rank, label, shown(mine), shown(theirs), mine, theirs)

    def _count(self, rank: int, a: list[Mark], b: list[Mark]) -> None:
        shorter = min(len(a), len(b))
        last = (a if len(a) > len(b) else b)[shorter]
        self.ended_early = self.difference is None
        self._part(rank, "number of steps", _steps(a), _steps(b), last, last)

    def _part(
        self, rank: int, what: str, original: str, ported: str, mine: Mark, theirs: Mark
    ) -> None:
        if self.difference is None:
            self._differing = (mine, theirs)
            self.difference = Difference(
                what, original, ported, theirs.where, theirs.source, mine.where, rank
            )

    def _locate(self, rank: int, left: tuple[Mark, ...], right: tuple[Mark, ...]) -> None:
        """Find the first module whose output differs before the difference: the cause is there or
        above. One that differs only afterwards is a consequence."""
        if self._differing is None:
            return
        mine_at, theirs_at = self._differing
        outputs = (_outputs(_before(left, mine_at)), _outputs(_before(right, theirs_at)))
        for mine, theirs in zip(*outputs, strict=False):
            if mine.what != theirs.what:
                return
            if gap(mine.values, theirs.values) > self.tolerance:
                self.origin = Difference(
                    f"output of {mine.what}",
                    shown(mine),
                    shown(theirs),
                    theirs.where,
                    theirs.source,
                    mine.where,
                    rank,
                )
                return


def _before(marks: Iterable[Mark], end: Mark) -> Iterator[Mark]:
    """The marks above one of them, which others may equal."""
    return itertools.takewhile(lambda mark: mark is not end, marks)


def _steps(marks: Iterable[Mark]) -> str:
    return str(sum(mark.kind is Kind.STEP for mark in marks))


def _outputs(marks: Iterable[Mark]) -> list[Mark]:
    return [mark for mark in marks if mark.kind is Kind.OUTPUT]


def _words(mark: Mark) -> str:
    return str(mark.kind) if mark.kind is Kind.LOSS else f"{mark.kind} {mark.what}"


def label(mark: Mark, losses: int, steps: int) -> str:
    """How a report calls a figure."""
    if mark.kind is Kind.LOSS:
        return f"loss {losses}"
    return f"parameter {mark.what} after step {steps + 1}"


def shown(mark: Mark) -> str:
    """The figures of a mark, in words."""
    if len(mark.values) == 1:
        return repr(mark.values[0])
    return ", ".join(f"{name} {v!r}" for name, v in zip(_FIGURES, mark.values, strict=False))
