"""Curves, as files tell them piece by piece. A long curve is thinned evenly: of as many points as make one
pair, the lowest and the highest stay, so a spike is never lost and old parts are as fine as new ones."""

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import lt

from jumar.track.lines import Reading

MOST_POINTS = 8192
MOST_SERIES = 200
Numbers = Sequence[float]


def _numbers() -> "array[float]":
    return array("d")


@dataclass(slots=True)
class Series:
    """One metric over steps, epochs, or, where nobody tells them, its own count."""

    name: str
    axis: str
    """`step`, `epoch` or `count`."""
    x: "array[float]" = field(default_factory=_numbers)
    y: "array[float]" = field(default_factory=_numbers)
    times: "array[float]" = field(default_factory=_numbers)
    """Unix seconds; NaN where they are unknown."""
    count: int = 0
    last: float = math.nan
    not_finite: int = 0
    """How many values were NaN or infinite."""
    first_not_finite: float | None = None
    """Where the first of them was."""
    _width: int = 2
    """How many points become a pair."""
    _thin: int = 0
    """How many points at the beginning are such pairs; the rest is as it came."""

    def add(self, x: float, y: float, time: float = math.nan) -> None:
        """The next value. A training that goes on from a checkpoint overwrites what it repeats."""
        self.count += 1
        self.last = y
        if self.x and self.x[-1] >= x:
            self._cut(x)
        self.x.append(x)
        self.y.append(y)
        self.times.append(time)
        if not math.isfinite(y):
            self._note_not_finite(x)
        if len(self.x) - self._thin >= max(self._width, 256):
            self._gather()

    def extend(self, x: Numbers, y: Numbers, times: Numbers) -> None:
        """Several values at once."""
        if all(map(lt, x, x[1:])):
            self._append(x, y, times)
            return
        edges = [0, *(place for place in range(1, len(x)) if x[place] <= x[place - 1]), len(x)]
        for start, end in pairwise(edges):
            self._append(x[start:end], y[start:end], times[start:end])

    def _append(self, x: Numbers, y: Numbers, times: Numbers) -> None:
        """Values whose steps grow."""
        self.count += len(x)
        self.last = y[-1]
        if self.x and self.x[-1] >= x[0]:
            self._cut(x[0])
        self.x.extend(x)
        self.y.extend(y)
        self.times.extend(times)
        if not math.isfinite(sum(y)):
            for place, value in zip(x, y, strict=True):
                if not math.isfinite(value):
                    self._note_not_finite(place)
        self._gather()

    def _note_not_finite(self, x: float) -> None:
        self.not_finite += 1
        if self.first_not_finite is None:
            self.first_not_finite = x

    def _cut(self, x: float) -> None:
        """Forget everything from `x` on."""
        kept = len(self.x)
        while kept and self.x[kept - 1] >= x:
            kept -= 1
        for numbers in (self.x, self.y, self.times):
            del numbers[kept:]
        self._thin = min(self._thin, kept)
        if not kept:
            self._width = 2

    def _gather(self) -> None:
        """Make pairs of what came; where those are too many, of two pairs one."""
        self._pair(self._thin, self._width)
        while self._thin > MOST_POINTS:
            self._width *= 2
            self._pair(0, 4, until=self._thin)

    def _pair(self, start: int, width: int, until: int | None = None) -> None:
        end = len(self.x) if until is None else until
        whole = end - (end - start) % width if until is None else end
        if width > 2:
            kept = [
                place
                for first in range(start, whole, width)
                for place in extremes(self.y, first, min(first + width, whole))
            ]
            for numbers in (self.x, self.y, self.times):
                numbers[start:whole] = array("d", [numbers[place] for place in kept])
            whole = start + len(kept)
        self._thin = whole


def extremes(y: Numbers, start: int, end: int) -> list[int]:
    """Where the lowest and the highest of some values are, in order. Where NaN is the news, it stays."""
    part = y[start:end]
    if math.isnan(sum(part)):
        places = range(start, end)
        low = min(places, key=lambda place: -math.inf if math.isnan(y[place]) else y[place])
        high = max(places, key=lambda place: -math.inf if math.isnan(y[place]) else y[place])
    else:
        low, high = start + part.index(min(part)), start + part.index(max(part))
    return sorted({low, high})


def thinned(y: Numbers, most: int) -> Sequence[int]:
    """The places of at most `most` points that show the same curve."""
    length = len(y)
    if length <= most:
        return range(length)
    pairs = max(1, most // 2)
    edges = [length * number // pairs for number in range(pairs + 1)]
    found: list[int] = []
    for start, end in pairwise(edges):
        found += extremes(y, start, end)
    return found


@dataclass(slots=True)
class _Counter:
    """Steps that begin anew with each epoch, made one count."""

    epoch: float | None = None
    raw: float = 0.0
    offset: float = 0.0
    begins: dict[float, float] = field(default_factory=dict[float, float])

    def whole(self, step: float, epoch: float) -> float:
        if epoch != self.epoch:
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

    def whole_of(self, steps: list[float], epochs: list[float]) -> list[float]:
        """Of many, in their order."""
        if epochs.count(self.epoch or 0.0) == len(epochs) and self.epoch is not None:
            self.raw = steps[-1]
            return [step + self.offset for step in steps] if self.offset else steps
        return [self.whole(step, epoch) for step, epoch in zip(steps, epochs, strict=True)]


class Curves:
    """All curves of one file."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self._counter = _Counter()

    def add(self, reading: Reading, time: float = math.nan) -> None:
        """What one line says."""
        step = reading.step
        if step is not None and reading.epoch is not None:
            step = self._counter.whole(step, reading.epoch)
        for name, value in reading.values.items():
            axis = "step" if step is not None else "epoch" if reading.epoch is not None else "count"
            series = self.of(name, axis)
            if series is None:
                continue
            x = {"step": step, "epoch": reading.epoch, "count": float(series.count + 1)}
            where = x[series.axis]
            if where is not None:
                series.add(where, value, time)

    def add_many(
        self,
        values: Mapping[str, list[float]],
        steps: list[float] | None,
        epochs: list[float] | None,
        time: float,
    ) -> None:
        """What many lines of one shape say: a column per metric."""
        if steps is not None and epochs is not None:
            steps = self._counter.whole_of(steps, epochs)
        axis = "step" if steps is not None else "epoch" if epochs is not None else "count"
        times = [time] * len(next(iter(values.values())))
        for name, column in values.items():
            series = self.of(name, axis)
            if series is None:
                continue
            if series.axis == "count":
                x = list(map(float, range(series.count + 1, series.count + 1 + len(column))))
            else:
                x = steps if series.axis == "step" else epochs
            if x is not None:
                series.extend(x, column, times)

    def of(self, name: str, axis: str) -> Series | None:
        """The curve of this name, a new one if need be; None where there are too many."""
        series = self.series.get(name)
        if series is None and len(self.series) < MOST_SERIES:
            series = self.series[name] = Series(name, axis)
        return series
