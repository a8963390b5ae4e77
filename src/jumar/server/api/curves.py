"""Curves of a job's metrics: made of what was read, joined, and as few points of them as are asked for."""

import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from jumar.spec.metrics import Curve, JobMetrics, OwnRun
from jumar.track.series import Series, thinned

Value = TypeVar("Value")


def shown(found: JobMetrics, points: int, begin: float | None) -> JobMetrics:
    """With fewer points; with `begin`, over the seconds since then."""
    curves = found.curves
    if begin is not None:
        curves = tuple(made for curve in curves if (made := _over_time(curve, begin)).x)
    return replace(found, curves=tuple(_thin(curve, points) for curve in curves))


def curve_of(series: Series, log: str, run: str) -> Curve:
    """What a file has told of one metric so far."""
    # The reader of another question may be adding to it.
    x, y, times = tuple(series.x), tuple(series.y), tuple(series.times)
    length = min(len(x), len(y), len(times))
    return Curve(
        name=series.name,
        axis=series.axis,
        log=log,
        x=x[:length],
        y=tuple(_finite(value) for value in y[:length]),
        times=tuple(_finite(value) for value in times[:length]),
        count=series.count,
        last=_finite(series.last),
        not_finite_from=series.first_not_finite,
        run=run,
    )


def joined(first: Curve, then: Curve) -> Curve:
    """Two files of one run: what the later one repeats is overwritten."""
    if not then.x:
        return first
    kept = bisect_left(first.x, then.x[0])
    begins = [at for at in (first.not_finite_from, then.not_finite_from) if at is not None]
    return replace(
        then,
        x=first.x[:kept] + then.x,
        y=first.y[:kept] + then.y,
        times=first.times[:kept] + then.times,
        count=first.count + then.count,
        not_finite_from=begins[0] if begins else None,
    )


def merged(
    curves: tuple[Curve, ...], runs: tuple[OwnRun, ...]
) -> tuple[tuple[Curve, ...], tuple[OwnRun, ...]]:
    """The only run that a script tracks is the training that the log tells of, where both have a metric in
    common: of that the curve with more values stays, and all are of one run."""
    if len(runs) != 1:
        return curves, runs
    most: tuple[dict[frozenset[str], int], ...] = ({}, {})
    for curve in curves:
        of_source = most[bool(curve.run)]
        of_source[_meant(curve.name)] = max(of_source.get(_meant(curve.name), 0), curve.count)
    told, tracked = most
    is_tracked = {meant: tracked[meant] >= told[meant] for meant in told.keys() & tracked}
    if not is_tracked:
        return curves, runs
    left = [one for one in curves if is_tracked.get(_meant(one.name)) in (None, bool(one.run))]
    return tuple(replace(one, run="") for one in left), tuple(replace(o, run="") for o in runs)


def _meant(name: str) -> frozenset[str]:
    """`loss`, `train/loss` and `Loss/train` are one metric, `val_loss` is another."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return frozenset(words) - {"", "train", "training"}


def _thin(curve: Curve, points: int) -> Curve:
    numbers = [math.nan if value is None else value for value in curve.y]
    places = thinned(numbers, points)
    return replace(
        curve,
        x=_at(curve.x, places),
        y=_at(curve.y, places),
        # Only asked for as an axis: a third of the answer.
        times=(),
    )


def _over_time(curve: Curve, begin: float) -> Curve:
    known = [place for place, at in enumerate(curve.times) if at is not None]
    # Clocks of machines differ.
    known.sort(key=lambda place: curve.times[place] or 0.0)
    x = tuple((curve.times[place] or 0.0) - begin for place in known)
    return replace(curve, axis="time", x=x, y=_at(curve.y, known), times=_at(curve.times, known))


def _at(values: Sequence[Value], places: Sequence[int]) -> tuple[Value, ...]:
    return tuple([values[place] for place in places])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
