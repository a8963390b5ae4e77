"""What the lines of the example's log say about its training."""

import re
from dataclasses import dataclass, field

_STEP = re.compile(r"step (\d+)/(\d+) loss ([\d.]+)")
_ACCURACY = re.compile(r"epoch (\d+) accuracy ([\d.]+)")


@dataclass(slots=True)
class Training:
    """How far it is and how good; `feed` it the log as it comes."""

    step: int = 0
    steps: int = 0
    losses: list[float] = field(default_factory=list[float])
    accuracy: float | None = None
    _unfinished: str = ""

    def feed(self, text: str) -> list[str]:
        """Take some more of the log; gives back the lines that are whole now."""
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        for line in lines:
            self._read(line)
        return lines

    def _read(self, line: str) -> None:
        if match := _STEP.fullmatch(line):
            self.step, self.steps = int(match[1]), int(match[2])
            self.losses.append(float(match[3]))
        elif match := _ACCURACY.fullmatch(line):
            self.accuracy = float(match[2])
