"""How many steps a training makes again after it was cut, by what its log tells before and after."""

from jumar.track.reading import LogReader
from jumar.track.series import Series


def repeated_steps(before: bytes, after: bytes) -> int | None:
    """`before`: the end of a log up to the cut; `after`: what follows. None where one of them counts no steps.

    A log that tells every tenth step is right to ten steps."""
    cut, resumed = _counting(before), _counting(after)
    if not cut or not resumed:
        return None
    last = max(cut, key=lambda series: series.x[-1])
    first = min(series.x[0] for series in resumed)
    return max(0, int(last.x[-1] - first + _interval(last, resumed)))


def _counting(text: bytes) -> list[Series]:
    reader = LogReader()
    reader.feed(text)
    curves = reader.curves.series.values()
    return [series for series in curves if series.axis == "step" and series.x]


def _interval(last: Series, resumed: list[Series]) -> float:
    """From one step that is told to the next."""
    told = next((series.x for series in (last, *resumed) if len(series.x) > 1), None)
    return 1.0 if told is None else max(1.0, told[-1] - told[-2])
