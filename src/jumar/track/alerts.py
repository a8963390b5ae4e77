"""What is wrong with a training, by its curves and by what its cards do. Pure: numbers in, alerts out.

Each rule wants to be sure: an alert that means nothing is worse than one that comes late."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median

Values = dict[str, float | str]
Numbers = Sequence[float | None]
_WINDOWS = 20
_PLATEAU_POINTS = 400
_PLATEAU_SHARE = 0.01
"""Of all that a loss has fallen; less in half of the time is a plateau."""
_SLOWER = 2.0
_RECENT = 10
_BEFORE = 30
IDLE_S = 600.0
_IDLE_PCT = 5.0
HOT_S = 60.0
_HOT_C = 90.0
"""Where cards begin to slow down to protect themselves."""
_LEAST_SAMPLES = 5


def is_loss(name: str) -> bool:
    """Whether a metric is one that should fall."""
    return name.lower().replace("_", "/").replace(" ", "/").rpartition("/")[2] in ("loss", "losses")


def plateau(y: Numbers) -> bool:
    """Whether a loss that fell has not fallen any more for half of the time."""
    values = [value for value in y if value is not None and math.isfinite(value)]
    if len(values) < _PLATEAU_POINTS:
        return False
    edges = [len(values) * number // _WINDOWS for number in range(_WINDOWS + 1)]
    means = [fmean(values[start:end]) for start, end in pairwise(edges)]
    early, late = min(means[: _WINDOWS // 2]), min(means[_WINDOWS // 2 :])
    fallen = means[0] - min(early, late)
    return fallen > 0 and early - late < _PLATEAU_SHARE * fallen


def slow_steps(x: Sequence[float], times: Numbers) -> Values | None:
    """How much longer a step takes lately than before; None where it does not, or nobody knows."""
    # A reader may be adding to them: as far as both go.
    moments = [(at, step) for step, at in zip(x, times, strict=False) if at is not None]
    # A log that is looked at every few seconds has several steps at one time: the last counts.
    distinct = [one for one, later in pairwise(moments) if later[0] > one[0]] + moments[-1:]
    each = [
        (at - before) / (step - earlier)
        for (before, earlier), (at, step) in pairwise(distinct)
        if step > earlier
    ]
    if len(each) < _RECENT + _BEFORE:
        return None
    # The middle one: a pause for an evaluation is no slower step.
    before, now = median(each[:-_RECENT]), median(each[-_RECENT:])
    return {"before": before, "now": now} if before > 0 and now > _SLOWER * before else None


def idles(times: Sequence[float], use_pct: Numbers) -> bool:
    """Whether a card has had nothing to do for a while."""
    lately = _lately(times, use_pct, IDLE_S)
    return bool(lately) and max(lately) < _IDLE_PCT


def is_hot(times: Sequence[float], temperature_c: Numbers) -> bool:
    """Whether a card is so hot that it throttles."""
    lately = _lately(times, temperature_c, HOT_S)
    return bool(lately) and min(lately) >= _HOT_C


def _lately(times: Sequence[float], values: Numbers, span_s: float) -> list[float]:
    """The values of the last `span_s`; none where they do not cover it."""
    if not times or times[-1] - times[0] < span_s:
        return []
    since = times[-1] - span_s
    pairs = zip(times, values, strict=True)
    found = [value for at, value in pairs if at >= since and value is not None]
    return found if len(found) >= _LEAST_SAMPLES else []
