"""Whether the port computes the same as the original: two runs compared, giving a certificate.

This room only compares; whoever runs the two (the original on the CPU, the port on simulated NPUs)
passes in what each run recorded, in order."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

TOLERANCE = 1e-5


class Kind(StrEnum):
    """What a number describes."""

    OUTPUT = "output"
    LOSS = "loss"
    PARAMETER = "parameter"
    STEP = "step"


class Verdict(StrEnum):
    """What the comparison says."""

    PROVEN = "proven"
    DIFFERS = "differs"
    NOT_DETERMINISTIC = "not-deterministic"
    NO_STEPS = "no-steps"
    NO_DEVICE = "no-device"
    """The port trained on the CPU, so nothing was tested."""
    ORIGINAL_FAILED = "original-failed"
    PORT_FAILED = "port-failed"
    BOTH_FAILED = "both-failed"


@dataclass(frozen=True, slots=True)
class Mark:
    """Some figures that a run recorded, and the line of the script that produced them."""

    kind: Kind
    what: str
    values: tuple[float, ...] = ()
    """A loss; the sum and the norm of a parameter or of a module's output."""
    digest: str = ""
    """Over every bit of a parameter."""
    where: str = ""
    """`file:line`."""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """How a run failed."""

    what: str
    where: str = ""
    source: str = ""
    tail: str = ""
    """The last lines of its error output."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run of a training script recorded."""

    device: str
    command: tuple[str, ...]
    ranks: tuple[tuple[Mark, ...], ...]
    used: frozenset[str] = frozenset()
    """The kinds of device that losses and parameters were on."""
    cut: bool = False
    """Stopped by the time limit, so it may have fewer steps."""
    failure: Failure | None = None
    seconds: float = 0.0

    @property
    def steps(self) -> int:
        """How many optimizer steps rank 0 took."""
        return sum(mark.kind is Kind.STEP for marks in self.ranks[:1] for mark in marks)


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
    failure: Failure | None = None
    seconds: tuple[float, float] = (0.0, 0.0)

    @property
    def equal(self) -> bool:
        """Whether the port is proven to compute the same."""
        return self.verdict is Verdict.PROVEN

    @property
    def is_the_ports_fault(self) -> bool:
        """Whether the port went wrong where the original did not."""
        return self.verdict in (Verdict.DIFFERS, Verdict.PORT_FAILED)


def compare(original: RunResult, ported: RunResult, *, tolerance: float = TOLERANCE) -> Certificate:
    """Compare two runs in order: losses, and parameters after each step."""
    found = _Comparison(tolerance)
    for rank, (left, right) in enumerate(zip(original.ranks, ported.ranks, strict=False)):
        found.walk(rank, left, right, may_be_short=original.cut or ported.cut)
    failure = ported.failure or original.failure
    if len(original.ranks) != len(ported.ranks) and found.difference is None and not failure:
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
        failure=failure,
        seconds=(original.seconds, ported.seconds),
    )


def with_second_original(first: Certificate, original: RunResult, again: RunResult) -> Certificate:
    """If the original differs from itself, its difference from the port means nothing."""
    if compare(original, again, tolerance=first.tolerance).verdict is not Verdict.DIFFERS:
        return first
    return replace(first, verdict=Verdict.NOT_DETERMINISTIC)


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
        self.ended_early = False

    def walk(
        self, rank: int, left: tuple[Mark, ...], right: tuple[Mark, ...], *, may_be_short: bool
    ) -> None:
        had_one = self.difference is not None
        a, b = _without_outputs(left), _without_outputs(right)
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
            self._figures(rank, _label(mine, losses, steps), mine, theirs)
        else:
            if len(a) != len(b) and not may_be_short:
                self._count(rank, a, b)
        if rank == 0:
            self.steps = steps
        if self.difference is not None and not had_one:
            self._locate(rank, left, right)

    def _figures(self, rank: int, label: str, mine: Mark, theirs: Mark) -> None:
        apart = gap(mine.values, theirs.values)
        self.largest = max(self.largest, apart)
        self.bitwise = self.bitwise and apart == 0 and mine.digest == theirs.digest
        if apart > self.tolerance:
            self._part(rank, label, _shown(mine), _shown(theirs), mine, theirs)

    def _count(self, rank: int, a: list[Mark], b: list[Mark]) -> None:
        shorter = min(len(a), len(b))
        last = (a if len(a) > len(b) else b)[shorter]
        self.ended_early = self.difference is None
        self._part(rank, "number of steps", _steps(a), _steps(b), last, last)

    def _part(
        self, rank: int, what: str, original: str, ported: str, mine: Mark, theirs: Mark
    ) -> None:
        if self.difference is None:
            self.difference = Difference(
                what, original, ported, theirs.where, theirs.source, mine.where, rank
            )

    def _locate(self, rank: int, left: tuple[Mark, ...], right: tuple[Mark, ...]) -> None:
        """Find the first module with a different output: the cause is there or above."""
        outputs = (_outputs(left), _outputs(right))
        for mine, theirs in zip(*outputs, strict=False):
            if mine.what != theirs.what:
                return
            if gap(mine.values, theirs.values) > self.tolerance:
                self.origin = Difference(
                    f"output of {mine.what}",
                    _shown(mine),
                    _shown(theirs),
                    theirs.where,
                    theirs.source,
                    mine.where,
                    rank,
                )
                return


def _without_outputs(marks: Iterable[Mark]) -> list[Mark]:
    return [mark for mark in marks if mark.kind is not Kind.OUTPUT]


def _steps(marks: Iterable[Mark]) -> str:
    return str(sum(mark.kind is Kind.STEP for mark in marks))


def _outputs(marks: Iterable[Mark]) -> list[Mark]:
    return [mark for mark in marks if mark.kind is Kind.OUTPUT]


def _words(mark: Mark) -> str:
    return str(mark.kind) if mark.kind is Kind.LOSS else f"{mark.kind} {mark.what}"


def _label(mark: Mark, losses: int, steps: int) -> str:
    if mark.kind is Kind.LOSS:
        return f"loss {losses}"
    return f"parameter {mark.what} after step {steps + 1}"


def _shown(mark: Mark) -> str:
    if len(mark.values) == 1:
        return repr(mark.values[0])
    return ", ".join(f"{name} {v!r}" for name, v in zip(("sum", "norm"), mark.values, strict=False))


def gap(left: tuple[float, ...], right: tuple[float, ...]) -> float:
    """The largest difference between corresponding figures, relative to the largest of them.

    So the sum of a parameter, which may be close to zero, is compared relative to its norm."""
    scale = max((abs(v) for v in (*left, *right) if math.isfinite(v)), default=0.0)
    worst = 0.0
    for one, other in zip(left, right, strict=False):
        if one == other or (math.isnan(one) and math.isnan(other)):
            continue
        if not (math.isfinite(one) and math.isfinite(other)):
            return math.inf
        worst = max(worst, abs(one - other) / scale)
    return worst
