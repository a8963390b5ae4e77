"""Steps, losses and accuracy, from the lines that the examples print."""

import re
from dataclasses import dataclass, field

# A log may hold anything: nothing that looks like a number here may be one that Python refuses.
_COUNT = r"[0-9]{1,15}"
_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{0,15})?)"
_STEP = re.compile(rf"step ({_COUNT})/({_COUNT}) loss {_NUMBER}")
_ACCURACY = re.compile(rf"epoch {_COUNT} accuracy {_NUMBER}")


@dataclass(slots=True)
class Training:
    """How far a training is and how good it has become; `feed` it the log as it comes."""

    step: int = 0
    steps: int = 0
    losses: list[float] = field(default_factory=list[float])
    accuracy: float | None = None
    _unfinished: str = ""

    def feed(self, text: str) -> list[str]:
        """Read more of the log; returns the lines that are complete now."""
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        for line in lines:
            self._read(line)
        return lines

    def _read(self, line: str) -> None:
        if match := _STEP.fullmatch(line):
            self.step, self.steps = int(match[1]), int(match[2])
            self.losses.append(float(match[3]))
        elif match := _ACCURACY.fullmatch(line):
            self.accuracy = float(match[1])
