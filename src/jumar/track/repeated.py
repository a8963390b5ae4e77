"""How many steps a training makes again after it was cut, by what its log tells before and after."""

import re

from jumar.track.reading import LogReader

# A line that counts and tells of no metric, which is no part of any curve.
_BARE = re.compile(rb"\b(?:step|iter|iteration)s?\s{0,3}[:=\[(#]?\s{0,8}(\d{1,12})\b", re.I)


def repeated_steps(before: bytes, after: bytes) -> int | None:
    """`before`: the end of a log up to the cut; `after`: what follows. None where one of them counts no steps.

    A log that tells every tenth step is right to ten steps."""
    cut, resumed = _counted(before), _counted(after)
    if not cut or not resumed:
        return None
    last = max(cut, key=lambda steps: steps[-1])
    first = min(steps[0] for steps in resumed)
    return max(0, int(last[-1] - first + _interval(last, resumed)))


def _counted(text: bytes) -> list[list[float]]:
    """The steps of each curve; where there are no curves, those that lines name."""
    reader = LogReader()
    reader.feed(text)
    curves = reader.curves.series.values()
    found = [list(series.x) for series in curves if series.axis == "step" and series.x]
    if found:
        return found
    # The last line may not be whole yet.
    whole = text[: text.rfind(b"\n") + 1]
    bare = [float(match[1]) for match in _BARE.finditer(whole)]
    return [bare] if bare else []


def _interval(last: list[float], resumed: list[list[float]]) -> float:
    """From one step that is told to the next."""
    told = next((steps for steps in (last, *resumed) if len(steps) > 1), None)
    return 1.0 if told is None else max(1.0, told[-1] - told[-2])
