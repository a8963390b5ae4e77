"""The times of ranks as `jumar_start/step_times.py` notes them, as a picture: a row per rank, a column per moment."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

COLUMNS = 120
_LONGEST_LINE = 200


@dataclass(frozen=True, slots=True)
class Picture:
    """Milliseconds, or None where nothing was told."""

    times: tuple[float, ...] = ()
    ranks: tuple[int, ...] = ()
    cells: tuple[tuple[float | None, ...], ...] = ()
    count: int = 0
    """How much was told."""


def noted(data: bytes) -> list[tuple[float, float]]:
    """Moments and milliseconds; what is no such line is left out."""
    found: list[tuple[float, float]] = []
    for line in data.split(b"\n"):
        words = line[:_LONGEST_LINE].split()
        try:
            at, took_ms = float(words[0]), float(words[1])
        except (ValueError, IndexError):
            continue
        if math.isfinite(at) and math.isfinite(took_ms) and took_ms >= 0:
            found.append((at, took_ms))
    return found


def picture(ranks: Mapping[int, list[tuple[float, float]]], columns: int = COLUMNS) -> Picture:
    """Means over equal spans of time, from the first moment to the last."""
    told = {rank: rows for rank, rows in sorted(ranks.items()) if rows}
    moments = [at for rows in told.values() for at, _ in rows]
    if not moments:
        return Picture()
    first, last = min(moments), max(moments)
    count = max(1, min(columns, int(last - first)))
    span = (last - first) / count or 1.0
    return Picture(
        times=tuple(first + span * place for place in range(count)),
        ranks=tuple(told),
        cells=tuple(_row(rows, first, span, count) for rows in told.values()),
        count=len(moments),
    )


def _row(
    rows: list[tuple[float, float]], first: float, span: float, count: int
) -> tuple[float | None, ...]:
    sums, counts = [0.0] * count, [0] * count
    for at, took_ms in rows:
        place = min(count - 1, int((at - first) / span))
        sums[place] += took_ms
        counts[place] += 1
    return tuple(round(s / n, 3) if n else None for s, n in zip(sums, counts, strict=True))
