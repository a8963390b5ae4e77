"""Two sides that differ, run again and again: is it the port, or what every run differs by?

Sums that several threads share, memory that nobody filled and seeds taken from the clock make a script
differ from itself. A port is only accused of what cannot be that:

- If a run of the port equals a run of the original, the port computes the same.
- If every run of each side equals the others of its side, the difference is real.
- If the original repeats its losses, or half of its parameters, not even within `_MOST_NOISE`, nothing
  can be said.
- Otherwise figure by figure, in order: a difference is real where the closest runs of the two sides are
  farther apart than `_MARGIN` times the farthest runs of one side, at that figure so far.
- What is left is within the noise, unless the port is noisier by far."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, combinations, product
from statistics import median

from jumar.port.proof import Certificate, Difference, Verdict, compare, label, shown
from jumar.port.proof_runs import Kind, Mark, RunResult, gap, without_outputs

MOST_RUNS = 5
"""Of each side."""
_ENOUGH_RUNS = 3
"""Of each side, if none differs from the others of its side."""
_MARGIN = 2
_MOST_NOISE = 1e-2
_NOISIER = 10

_Row = list[list[Mark]]


def judge(
    originals: Sequence[RunResult], ports: Sequence[RunResult], tolerance: float, *, is_last: bool
) -> Certificate | None:
    """What the runs say together; None if more of them would say it better."""
    runs = len(ports)
    first = replace(compare(originals[0], ports[0], tolerance=tolerance), runs=runs)
    for original, ported in zip(originals, ports, strict=True):
        if original.failure or ported.failure:
            return replace(compare(original, ported, tolerance=tolerance), runs=runs)
    originals_agree = _agree(originals, tolerance)
    alike = _alike(originals, ports, tolerance)
    if alike is not None:
        noise = _spread_of_losses(ports if originals_agree else originals)
        if originals_agree and noise > _MOST_NOISE:
            return first
        return replace(alike, runs=runs, noise=noise)
    if originals_agree and _agree(ports, tolerance):
        return first if runs >= _ENOUGH_RUNS or is_last else None
    if runs < _ENOUGH_RUNS and not is_last:
        return None
    return _told_apart(first, originals, ports, is_last=is_last)


def _agree(runs: Sequence[RunResult], tolerance: float) -> bool:
    """Whether all runs of one side are equal."""
    return all(compare(runs[0], run, tolerance=tolerance).difference is None for run in runs[1:])


def _alike(
    originals: Sequence[RunResult], ports: Sequence[RunResult], tolerance: float
) -> Certificate | None:
    """A run of the port that equals one of the original."""
    pairs = (compare(*pair, tolerance=tolerance) for pair in product(originals, ports))
    return next((pair for pair in pairs if pair.difference is None), None)


def _spread_of_losses(runs: Sequence[RunResult]) -> float:
    events = chain.from_iterable(_by_process(_compared(runs)))
    return max((_widest(event) for event in events if event[0].kind is Kind.LOSS), default=0.0)


def _told_apart(
    first: Certificate,
    originals: Sequence[RunResult],
    ports: Sequence[RunResult],
    *,
    is_last: bool,
) -> Certificate | None:
    rows = _compared([*originals, *ports])
    own, others = rows[: len(originals)], rows[len(originals) :]
    shape = _shape(own[0])
    if any(_shape(row) != shape for row in own):
        return replace(first, verdict=Verdict.NOT_DETERMINISTIC)
    others = [row for row in others if _shape(row) == shape]
    if not others:
        return first
    found = _Figures(first.tolerance)
    for rank, (mine, theirs) in enumerate(zip(_by_process(own), _by_process(others), strict=True)):
        found.walk(rank, mine, theirs)
    # More runs cannot make it any quieter.
    if found.is_noisy:
        return replace(first, verdict=Verdict.NOT_DETERMINISTIC)
    if not is_last:
        return None
    if found.difference is not None:
        return replace(first, difference=found.difference)
    if found.port_is_noisier:
        return first
    noise = _spread_of_losses(originals)
    return replace(first, verdict=Verdict.PROVEN, difference=None, origin=None, noise=noise)


def _compared(runs: Sequence[RunResult]) -> list[_Row]:
    """The marks of every process of every run; as far as all go, if time ended one of them."""
    rows = [[without_outputs(marks) for marks in run.ranks] for run in runs]
    if not any(run.cut for run in runs):
        return rows
    lengths = [min(map(len, same)) for same in zip(*rows, strict=False)]
    return [[row[rank][:length] for rank, length in enumerate(lengths)] for row in rows]


def _shape(row: _Row) -> list[list[tuple[Kind, str]]]:
    """What happened, in order, without the numbers."""
    return [[(mark.kind, mark.what) for mark in marks] for marks in row]


def _by_process(rows: Sequence[_Row]) -> list[list[tuple[Mark, ...]]]:
    """For each process the events in order, each as it was in all runs."""
    return [list(zip(*same, strict=False)) for same in zip(*rows, strict=False)]


def _widest(column: Sequence[Mark]) -> float:
    """How far the runs of one side are apart at one event."""
    return max((gap(a.values, b.values) for a, b in combinations(column, 2)), default=0.0)


class _Figures:
    """Walks along the events of both sides and keeps how far each side's runs are apart."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._of_original: dict[str, float] = defaultdict(float)
        self._of_port: dict[str, float] = defaultdict(float)
        self.difference: Difference | None = None

    def walk(self, rank: int, own: list[tuple[Mark, ...]], others: list[tuple[Mark, ...]]) -> None:
        """Go through the events of one process."""
        losses = steps = 0
        for mine, theirs in zip(own, others, strict=True):
            kind = mine[0].kind
            if kind is Kind.STEP:
                steps += 1
                continue
            losses += kind is Kind.LOSS
            self._event(rank, mine, theirs, label(mine[0], losses, steps))

    def _event(
        self, rank: int, mine: tuple[Mark, ...], theirs: tuple[Mark, ...], name: str
    ) -> None:
        figure = f"{rank} {mine[0].what}"
        for seen, column in ((self._of_original, mine), (self._of_port, theirs)):
            seen[figure] = max(seen[figure], _widest(column))
        apart, one, other = min(
            ((gap(a.values, b.values), a, b) for a, b in product(mine, theirs)),
            key=lambda found: found[0],
        )
        noise = max(self._of_original[figure], self._of_port[figure])
        if self.difference is not None or apart <= max(self._tolerance, _MARGIN * noise):
            return
        # A figure of few numbers may repeat itself by chance where others do not.
        if apart > _MARGIN * max(map(_typical, (self._of_original, self._of_port))):
            self.difference = Difference(
                name, shown(one), shown(other), other.where, other.source, one.where, rank
            )

    @property
    def is_noisy(self) -> bool:
        """Whether the original's runs have too little in common to compare anything with them."""
        losses = [v for name, v in self._of_original.items() if name.endswith(" loss")]
        return max([_typical(self._of_original), *losses]) > _MOST_NOISE

    @property
    def port_is_noisier(self) -> bool:
        """Whether the port's runs differ by far more than the original's."""
        mine, theirs = max(self._of_original.values()), max(self._of_port.values())
        return theirs > max(self._tolerance, _NOISIER * mine)


def _typical(spreads: dict[str, float]) -> float:
    return median(spreads.values()) if spreads else 0.0
