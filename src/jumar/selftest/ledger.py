"""What really ran, as the jobs themselves recorded it outside the home."""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Line:
    """One event in the life of one rank of one attempt."""

    event: str
    """begin, end or disk-full."""
    job: str
    attempt: int
    rank: int
    pid: int
    cards: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    """What it was given that somebody else still held."""
    code: int | None = None

    @property
    def who(self) -> str:
        """For people."""
        return f"{self.job} attempt {self.attempt} rank {self.rank}"


def parse_ledger(text: str) -> tuple[Line, ...]:
    """All lines in the order they were written."""
    lines: list[Line] = []
    for line in text.splitlines():
        values = json.loads(line)
        for name in ("cards", "taken"):
            values[name] = tuple(values.get(name, ()))
        lines.append(Line(**values))
    return tuple(lines)


def read_ledger(path: Path) -> tuple[Line, ...]:
    """The ledger as it is now; empty while nothing has run."""
    try:
        return parse_ledger(path.read_text("utf-8"))
    except FileNotFoundError:
        return ()
