"""How good trainings became, and with which parameters: what is compared and sorted in an evaluation."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jumar.track.lines import WORDS

Parameters = Mapping[str, float | str]
_FLAG = re.compile(r"--?([A-Za-z][\w.-]{0,99})(?:=(.*))?", re.S)
_MOST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Range:
    """The values of one parameter that are wanted, both ends included."""

    parameter: str
    low: float = -math.inf
    high: float = math.inf

    def has(self, parameters: Parameters) -> bool:
        """Whether a run is in it; one without the parameter is not."""
        value = parameters.get(self.parameter)
        return isinstance(value, float | int) and self.low <= value <= self.high


def range_of(text: str) -> Range | None:
    """`lr=0.001..0.1`, `lr=0.001..`, `lr=..0.1` or `lr=0.01`; None for anything else."""
    name, _, ends = text.partition("=")
    low, dots, high = ends.partition("..")
    try:
        least = float(low) if low else -math.inf
        most = float(high) if high else math.inf if dots else least
    except ValueError:
        return None
    if not name.strip() or not (low or high) or not least <= most:
        return None
    return Range(name.strip(), least, most)


def best_of(name: str, points: Iterable[tuple[float, float | None]]) -> tuple[float, float] | None:
    """Where the best value of a metric was, and the value; None where no value is better than another."""
    sign = WORDS.sign(name.lower())
    numbers = [(x, y) for x, y in points if y is not None and math.isfinite(y)]
    return max(numbers, key=lambda point: sign * point[1]) if sign and numbers else None


def order_of(name: str, best: float | None) -> tuple[bool, float]:
    """Sorts the best first, and those without a value last."""
    return (True, 0.0) if best is None else (False, -best * (WORDS.sign(name.lower()) or 1))


def parameters_of(command: Sequence[str]) -> dict[str, float | str]:
    """`--lr 0.1 --epochs=3` of a command line."""
    found: dict[str, float | str] = {}
    for index, word in enumerate(command):
        flag = _FLAG.fullmatch(word)
        if flag is None:
            continue
        value = flag[2]
        if value is None and index + 1 < len(command):
            value = command[index + 1] if not _FLAG.fullmatch(command[index + 1]) else None
        if value is not None:
            found[flag[1]] = _value(value)
    return found


def _value(text: str) -> float | str:
    try:
        number = float(text)
    except ValueError:
        return text[:_MOST_TEXT]
    return number if math.isfinite(number) else text


def varying(rows: Sequence[Parameters]) -> tuple[str, ...]:
    """The numeric parameters in which the rows differ, by which they can be narrowed."""
    names = dict.fromkeys(name for row in rows for name in row)
    return tuple(
        name
        for name in names
        if len({value for row in rows if isinstance(value := row.get(name), float | int)}) > 1
    )
