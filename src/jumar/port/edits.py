"""Apply proposals to a text: all pieces of one or none, never two at the same place.

Comments silence rules: `# jumar: ignore`, `# jumar: ignore[JP101]`, `ignore-file`. The comment silences
the lines of its part of a statement; `ignore-file` the whole file."""

import re
from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple

from jumar.port.patterns import lazy_pattern
from jumar.port.records import Piece, Proposal, Remark
from jumar.port.source import Source


class Accepted(NamedTuple):
    """An accepted proposal, with the code of its rule."""

    code: str
    proposal: Proposal


def accept(proposals: Iterable[tuple[str, Proposal]]) -> list[Accepted]:
    """Keep, by priority, the proposals that do not overlap one already kept."""
    taken: list[tuple[int, int]] = []
    kept: list[Accepted] = []
    for code, proposal in proposals:
        spans = [(p.start, p.end) for p in proposal.pieces]
        if any(_is_taken(span, taken) for span in spans):
            continue
        for span in spans:
            insort(taken, span)
        kept.append(Accepted(code, proposal))
    return kept


def _is_taken(span: tuple[int, int], taken: list[tuple[int, int]]) -> bool:
    """Whether a span overlaps; taken spans are sorted and disjoint, so only neighbours can."""
    place = bisect_left(taken, span)
    return any(_clash(span, other) for other in taken[max(0, place - 2) : place + 2])


def _clash(one: tuple[int, int], other: tuple[int, int]) -> bool:
    if one[0] == one[1] or other[0] == other[1]:
        # An insertion may touch the edge of a replacement, not its inside.
        low, high = (one, other) if one[0] == one[1] else (other, one)
        return high[0] < low[0] < high[1] or (one == other)
    return one[0] < other[1] and other[0] < one[1]


def apply(text: str, pieces: Iterable[Piece]) -> str:
    """The text with all pieces applied."""
    parts: list[str] = []
    position = 0
    for piece in sorted(pieces, key=lambda p: (p.start, p.end)):
        parts += (text[position : piece.start], piece.text)
        position = piece.end
    parts.append(text[position:])
    return "".join(parts)


_LINE = lazy_pattern(r"#\s*jumar:\s*ignore(?!-file)(?:\[([\w\s,]*)\])?")
_FILE = lazy_pattern(r"^\s*#\s*jumar:\s*ignore-file\s*$", re.MULTILINE)


def skips_whole_file(text: str) -> bool:
    """Whether a comment asks to skip the file."""
    return "ignore-file" in text and _FILE.search(text) is not None


def silenced_lines(text: str) -> dict[int, frozenset[str]]:
    """The codes silenced on each line; an empty set means all."""
    if "jumar" not in text:
        return {}
    silenced: dict[int, frozenset[str]] = {}
    for number, row in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        match = _LINE.search(row)
        if match:
            codes = (match[1] or "").replace(",", " ").split()
            silenced[number] = frozenset(codes)
    return silenced


def silences(
    silenced: dict[int, frozenset[str]], code: str, source: Source, outcome: Proposal | Remark
) -> bool:
    """Whether a comment on the silenced_lines of an outcome silences its rule."""
    if not silenced:
        return False
    first = source.line_of(outcome.start)
    last = source.line_of(max(outcome.start, outcome.end - 1))
    return any(
        line in silenced and (not silenced[line] or code in silenced[line])
        for line in range(first, last + 1)
    )
