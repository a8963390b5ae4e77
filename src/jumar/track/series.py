"""Curves, as a log tells them line by line. A curve that is long is thinned: of each four points the lowest
and the highest stay, so a spike is never lost."""

import math
from dataclasses import dataclass, field

from jumar.track.lines import Reading

MOST_POINTS = 8192
MOST_SERIES = 200


@dataclass(slots=True)
class Series:
    """One metric over steps, epochs, or, where the log tells neither, its own count."""

    name: str
    axis: str
    """`step`, `epoch` or `count`."""
    x: list[float] = field(default_factory=list[float])
    y: list[float] = field(default_factory=list[float])
    count: int = 0
    last: float = math.nan
    not_finite: int = 0
    """How many values were NaN or infinite."""
    first_not_finite: float | None = None
    """Where the first of them was."""

    def add(self, x: float, y: float) -> None:
        """The next value. A training that goes on from a checkpoint overwrites what it repeats."""
        self.count += 1
        self.last = y
        while self.x and self.x[-1] >= x:
            self.x.pop()
            self.y.pop()
        self.x.append(x)
        self.y.append(y)
        if not math.isfinite(y):
            self.not_finite += 1
            if self.first_not_finite is None:
                self.first_not_finite = x
        if len(self.x) > MOST_POINTS:
            self._thin()

    def _thin(self) -> None:
        kept: list[int] = []
        for start in range(0, len(self.x), 4):
            four = range(start, min(start + 4, len(self.x)))
            # Where NaN is the news, it stays.
            low = min(four, key=lambda i: -math.inf if math.isnan(self.y[i]) else self.y[i])
            high = max(four, key=lambda i: -math.inf if math.isnan(self.y[i]) else self.y[i])
            kept += sorted({low, high})
        self.x = [self.x[i] for i in kept]
        self.y = [self.y[i] for i in kept]


@dataclass(slots=True)
class _Counter:
    """Steps that begin anew with each epoch, made one count."""

    epoch: float | None = None
    raw: float = 0.0
    offset: float = 0.0
    begins: dict[float, float] = field(default_factory=dict[float, float])

    def whole(self, step: float, epoch: float | None) -> float:
        if epoch is not None and epoch != self.epoch:
            if self.epoch is not None and epoch > self.epoch and step <= self.raw:
                self.offset += self.raw
            elif epoch in self.begins:
                # An epoch once more: the training goes on from a checkpoint.
                self.offset = self.begins[epoch]
            elif self.epoch is not None and epoch < self.epoch:
                self.offset = 0.0
            if len(self.begins) < MOST_POINTS:
                self.begins[epoch] = self.offset
            self.epoch = epoch
        self.raw = step
        return self.offset + step


class Curves:
    """All curves of one log."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self._counter = _Counter()

    def add(self, reading: Reading) -> None:
        """What one line says."""
        step = None if reading.step is None else self._counter.whole(reading.step, reading.epoch)
        for name, value in reading.values.items():
            series = self.series.get(name)
            if series is None:
                if len(self.series) >= MOST_SERIES:
                    continue
                axis = "step" if step is not None else "epoch" if reading.epoch is not None else ""
                series = self.series[name] = Series(name, axis or "count")
            x = {"step": step, "epoch": reading.epoch, "count": float(series.count + 1)}
            where = x[series.axis]
            if where is not None:
                series.add(where, value)
