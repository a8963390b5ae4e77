"""What is wrong with trainings: by their curves and by their cards; kept in a file of each job."""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from jumar.spec.metrics import Alert
from jumar.spec.usage import JobUsage
from jumar.track.alerts import IDLE_S, idles, is_hot, is_loss, plateau, slow_steps
from jumar.track.series import Series
from jumar.wholefile import write_whole

_MOST_EACH = 50
_MOST_BYTES = 1 << 16


def not_finite(series: Iterable[Series]) -> Iterator[Alert]:
    """Losses that became NaN or infinite."""
    for one in series:
        if one.first_not_finite is not None and is_loss(one.name):
            values: dict[str, float | str] = {"axis": one.axis, "at": one.first_not_finite}
            yield Alert(kind="not-finite", name=one.name, values=values)


def of_series(series: Iterable[Series]) -> Iterator[Alert]:
    """What curves tell."""
    losses = [one for one in series if is_loss(one.name)]
    yield from not_finite(losses)
    for one in losses:
        if one.first_not_finite is None and plateau(one.y):
            yield Alert(kind="plateau", name=one.name)
    for one in losses:
        known = [None if math.isnan(at) else at for at in one.times]
        slow = slow_steps(one.x, known) if one.axis == "step" else None
        if slow is not None:
            yield Alert(kind="slow-steps", name="", values=slow)
            return


def of_usage(usage: JobUsage) -> Iterator[Alert]:
    """What cards tell."""
    for curve in usage.curves:
        if curve.card is None:
            continue
        if curve.name == "use_pct" and idles(usage.times, curve.y):
            yield Alert(kind="idle-card", name=curve.card, values={"minutes": IDLE_S / 60})
        elif curve.name == "temperature_c" and is_hot(usage.times, curve.y):
            yield Alert(kind="hot-card", name=curve.card, values={"celsius": curve.y[-1] or 0.0})


def kept_alerts(path: Path) -> tuple[Alert, ...]:
    """Those that were noticed; none where there is no such file, or it is no such file."""
    try:
        said = json.loads(path.read_bytes()[:_MOST_BYTES])
        return tuple(Alert(**one) for one in cast("list[dict[str, Any]]", said))
    except (OSError, ValueError, TypeError):
        return ()


def keep_alerts(path: Path, alerts: Iterable[Alert]) -> None:
    """Write them down; OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps([asdict(one) for one in list(alerts)[:_MOST_EACH]])
    write_whole(path, text, private=True)
