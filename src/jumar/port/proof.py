"""Whether the port computes what the original computed: two runs compared, told as a certificate.

This room only compares; whoever runs the two (the original on the CPU, the port on simulated NPUs)
hands over what each of them logged."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run of a training script left behind."""

    device: str
    command: tuple[str, ...]
    losses: tuple[float, ...]
    parameters: Mapping[str, tuple[float, ...]] = field(
        default_factory=dict[str, tuple[float, ...]]
    )
    """A few numbers a parameter, such as its sum and its norm, in the same order on both sides."""
    lines: tuple[str, ...] = ()
    """Where each loss was made, as `file:line`, when that is known."""
    failure: str = ""
    """The last lines of the error output of a run that did not end well."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where the two runs part."""

    what: str
    original: float
    ported: float
    where: str = ""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the comparison says; it is part of the report."""

    equal: bool
    steps: int
    parameters: int
    tolerance: float
    largest: float
    """The largest relative difference that was seen."""
    original: str
    ported: str
    difference: Difference | None = None
    failure: str = ""


def compare(original: RunResult, ported: RunResult, *, tolerance: float = 1e-5) -> Certificate:
    """Compare two runs: losses step by step, then parameters."""
    steps = min(len(original.losses), len(ported.losses))
    shared = [name for name in original.parameters if name in ported.parameters]
    failure = original.failure or ported.failure
    if not failure and not steps:
        failure = "no loss was logged by either run"
    largest = 0.0
    first: Difference | None = None
    for what, left, right, where in _pairs(original, ported, steps, shared):
        gap = _relative(left, right)
        largest = max(largest, gap)
        if gap > tolerance and first is None:
            first = Difference(what, left, right, where)
    if first is None and len(original.losses) != len(ported.losses) and not failure:
        counts = float(len(original.losses)), float(len(ported.losses))
        first = Difference("number of steps", *counts)
    return Certificate(
        equal=first is None and not failure,
        steps=steps,
        parameters=len(shared),
        tolerance=tolerance,
        largest=largest,
        original=original.device,
        ported=ported.device,
        difference=first,
        failure=failure,
    )


def _pairs(
    original: RunResult, ported: RunResult, steps: int, shared: list[str]
) -> list[tuple[str, float, float, str]]:
    pairs = [
        (
            f"loss of step {step + 1}",
            original.losses[step],
            ported.losses[step],
            ported.lines[step] if step < len(ported.lines) else "",
        )
        for step in range(steps)
    ]
    for name in shared:
        for left, right in zip(original.parameters[name], ported.parameters[name], strict=False):
            pairs.append((f"parameter {name}", left, right, ""))
    return pairs


def _relative(left: float, right: float) -> float:
    if math.isnan(left) or math.isnan(right):
        return 0.0 if math.isnan(left) and math.isnan(right) else math.inf
    if left == right:
        return 0.0
    return abs(left - right) / max(abs(left), abs(right))
