"""Job arrays: `0-9`, `1,4-8`, `0-100:10`, and `%4` behind it for how many may run at once."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MOST_ELEMENTS = 1000
MOST_INDEX = 1_000_000
_PART = re.compile(r"(?P<first>\d{1,7})(-(?P<last>\d{1,7})(:(?P<step>\d{1,7}))?)?", re.ASCII)
_LIMIT = re.compile(r"[1-9]\d{0,3}", re.ASCII)
_HOW = "write it like 0-9, 1,4-8, 0-100:10 or 0-9%2"


@dataclass(frozen=True, slots=True)
class JobArray:
    """The indices of an array, in ascending order."""

    indices: tuple[int, ...]
    limit: int | None = None
    """How many of its jobs may run at once."""

    @classmethod
    def parse(cls, text: str) -> "JobArray":
        """ValueError in words where it is none."""
        parts, has_limit, limit = text.partition("%")
        if has_limit and not _LIMIT.fullmatch(limit):
            raise ValueError(f"{text!r}: after % comes how many may run at once, 1 to 9999")
        indices: set[int] = set()
        for part in parts.split(","):
            indices.update(_indices(text, part))
            if len(indices) > MOST_ELEMENTS:
                raise ValueError(f"{text!r} has more than {MOST_ELEMENTS} jobs")
        return cls(tuple(sorted(indices)), int(limit) if has_limit else None)

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"%{self.limit}"
        return f"{spans(self.indices)}{limit}"

    def element(self, index: int) -> str:
        """The same for one job alone, which keeps the limit."""
        return str(index) if self.limit is None else f"{index}%{self.limit}"


def spans(indices: Sequence[int]) -> str:
    """Ascending indices as people write them: `0-3,7`."""
    parts: list[list[int]] = []
    for index in indices:
        if parts and index == parts[-1][-1] + 1:
            parts[-1][1:] = [index]
        else:
            parts.append([index])
    return ",".join("-".join(map(str, part)) for part in parts)


def _indices(text: str, part: str) -> range:
    found = _PART.fullmatch(part)
    if found is None:
        raise ValueError(f"{text!r} is not an array; {_HOW}")
    first = int(found["first"])
    last, step = int(found["last"] or first), int(found["step"] or 1)
    if last < first or not step or last > MOST_INDEX:
        raise ValueError(f"{text!r}: {part} is empty, or goes beyond {MOST_INDEX}; {_HOW}")
    return range(first, last + 1, step)[: MOST_ELEMENTS + 1]
