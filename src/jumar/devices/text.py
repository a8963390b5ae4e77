"""Shared by all readers of tool output: clean lines, numbers, and one error for giving up."""

import re

from jumar.errors import Unavailable

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_NUMBER = re.compile(r"([-+]?\d{1,15}(?:\.\d{1,9})?)\s*(?:%|W|C|MB|MHz)?", re.IGNORECASE)
_NOTHING = frozenset({"", "-", "--", "na", "n/a", "none", "null", "unknown", "not supported"})
_MOST_QUOTED = 120


class CannotRead(Unavailable):
    """A tool's output is not the report it was asked for."""


def lines_of(text: str) -> list[str]:
    """The lines without line endings, terminal colours and NUL bytes; tabs become spaces."""
    clean = _ESCAPES.sub("", text).replace("\0", "").expandtabs()
    return [line.strip("\r") for line in re.split(r"\r?\n", clean)]


def number(text: str | None) -> float | None:
    """The whole text as a number, unit aside; None for NA, `-` and other words."""
    match = _NUMBER.fullmatch((text or "").strip())
    return float(match[1]) if match else None


def whole(text: str | None) -> int | None:
    """Like `number`, for ids and sizes."""
    value = number(text)
    return int(value) if value is not None else None


def identity(text: str | None) -> int | None:
    """A whole number that is not negative: an id."""
    clean = (text or "").strip()
    return int(clean) if clean.isascii() and clean.isdecimal() and len(clean) <= 9 else None


def word(text: str | None) -> str | None:
    """The text; None if it stands for no value."""
    clean = (text or "").strip()
    return None if clean.lower() in _NOTHING - {"unknown"} else clean


def first_words(text: str) -> str:
    """The start of the output, on one line, to quote in an error."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _MOST_QUOTED else flat[: _MOST_QUOTED - 1] + "…"
