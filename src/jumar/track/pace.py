"""How much of a training fits into one segment: counted in what its log says."""

import re
from dataclasses import dataclass
from math import ceil

_OF = r"(?:\s*(?:/|of)\s*(\d{1,12}))?"
_UNITS = {
    "epochs": re.compile(rf"\bepoch(?:s|\s*#)?\s*[:=\[( ]\s*(\d{{1,12}}){_OF}", re.I),
    "steps": re.compile(rf"\b(?:step|iter|iteration)s?\s*[:=\[( ]\s*(\d{{1,12}}){_OF}", re.I),
}
_WHOLE = {
    "epochs": re.compile(r"--?(?:num_train_|num[-_]|max[-_])?epochs?[= ](\d{1,12})\b"),
    "steps": re.compile(r"--?(?:num_train_|num[-_]|max[-_])?(?:steps|iters)[= ](\d{1,12})\b"),
}


@dataclass(frozen=True, slots=True)
class Pace:
    """What one segment did of a training."""

    unit: str
    """`epochs`, or `steps` where the log counts no two epochs."""
    done: int
    total: int | None
    """None: neither the log nor the command says it."""

    @property
    def segments(self) -> int | None:
        """How many segments all of it takes."""
        return None if self.total is None else ceil(self.total / self.done)


def pace_of(log: str, command: str) -> Pace | None:
    """The pace of a training that began at its beginning; None where its log counts nothing."""
    found = [pace for unit in _UNITS if (pace := _counted(unit, log, command)) is not None]
    # One epoch alone was most likely cut: steps tell more.
    return next((pace for pace in found if pace.done > 1), found[-1] if found else None)


def _counted(unit: str, log: str, command: str) -> Pace | None:
    seen = [(int(match[1]), match[2]) for match in _UNITS[unit].finditer(log)]
    if not seen:
        return None
    numbers = {number for number, _ in seen}
    # Steps may be told every hundredth only; they count from 0 or 1.
    done = len(numbers) if unit == "epochs" else max(numbers)
    told = [int(total) for _, total in seen if total] or [
        int(match[1]) for match in _WHOLE[unit].finditer(command)
    ]
    return Pace(unit, max(1, done), told[-1] if told else None)
