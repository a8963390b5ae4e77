"""What the runs of a proof recorded, and how far two figures are apart."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What a number describes."""

    OUTPUT = "output"
    LOSS = "loss"
    PARAMETER = "parameter"
    STEP = "step"


@dataclass(frozen=True, slots=True)
class Mark:
    """Some figures that a run recorded, and the line of the script that produced them."""

    kind: Kind
    what: str
    values: tuple[float, ...] = ()
    """A loss; of a parameter or a module's output the sum, the norm and the sum of the first half."""
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
    tests: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Whether each test passed, if the command runs tests."""
    failure: Failure | None = None
    seconds: float = 0.0

    @property
    def passed_tests(self) -> frozenset[str]:
        """The tests that passed."""
        return frozenset(name for name, passed in self.tests.items() if passed)

    @property
    def steps(self) -> int:
        """How many optimizer steps rank 0 took."""
        return sum(mark.kind is Kind.STEP for marks in self.ranks[:1] for mark in marks)


def without_outputs(marks: Iterable[Mark]) -> list[Mark]:
    """Losses, parameters and steps: what is compared."""
    return [mark for mark in marks if mark.kind is not Kind.OUTPUT]


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
