"""Comments that silence rules: `# jumar: ignore`, `# jumar: ignore[JP101]`, `ignore-file`.

The comment silences the lines of its part of a statement; `ignore-file` the whole file."""

import re

from jumar.port.patterns import lazy_pattern
from jumar.port.records import Proposal, Remark
from jumar.port.source import Source

_LINE = lazy_pattern(r"#\s*jumar:\s*ignore(?!-file)(?:\[([\w\s,]*)\])?")
_FILE = lazy_pattern(r"^\s*#\s*jumar:\s*ignore-file\s*$", re.MULTILINE)


def whole_file(text: str) -> bool:
    """Whether a comment asks to skip the file."""
    return "ignore-file" in text and _FILE.search(text) is not None


def lines(text: str) -> dict[int, frozenset[str]]:
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
    """Whether a comment on the lines of an outcome silences its rule."""
    if not silenced:
        return False
    first = source.line_of(outcome.start)
    last = source.line_of(max(outcome.start, outcome.end - 1))
    return any(
        line in silenced and (not silenced[line] or code in silenced[line])
        for line in range(first, last + 1)
    )
