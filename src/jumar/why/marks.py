"""What a traceback quotes of a statement, and which part of it Python's marks (`~~~^^^`) say has failed.

Since 3.11 a line of marks stands below the source; since 3.13 a statement is quoted in all its lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_FRAME = re.compile(r'\s*File "[^"]+", line \d+')
_MARKS = re.compile(r"\s*[~^][\s~^]*")
_LEFT_OUT = re.compile(r"\s*\.\.\.<\d+ lines?>\.\.\.\s*")
_LONGEST = 160
"""As much of a statement as is read."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """A statement, and what of it failed."""

    text: str = ""
    part: str = ""
    """What the marks point at; nothing where there are none, or they are below all of it."""
    sides: tuple[str, str, str] | None = None
    """Of that part the left side, the operator, subscript or brackets, and the right side."""


def quoted(lines: Sequence[str]) -> Quoted | None:
    """What stands below the last frame of these lines, if it has marks."""
    start = next((at for at in reversed(range(len(lines))) if _FRAME.match(lines[at])), None)
    return None if start is None else _statement(lines[start + 1 :])


def first_quoted(lines: Sequence[str]) -> Quoted | None:
    """What stands below a frame, up to the next one, if it has marks."""
    end = next((at for at, text in enumerate(lines) if _FRAME.match(text)), len(lines))
    return _statement(lines[:end])


def _statement(lines: Sequence[str]) -> Quoted | None:
    source: list[str] = []
    parts: list[str] = []
    sides: tuple[str, str, str] | None = None
    is_marked = False
    for text in lines:
        if _MARKS.fullmatch(text):
            if not source:
                return None
            is_marked = True
            part = _below(source[-1], text)
            sides = _sides(source[-1], text) if not parts else sides
            parts.append(part)
        elif text.strip() and not _LEFT_OUT.fullmatch(text):
            source.append(text)
    if not is_marked:
        return None
    whole = " ".join(text.strip() for text in source)
    part = " ".join(one for one in parts if one)
    # A character that is two columns wide shifts what stands below it.
    is_told = whole.isascii() and part not in ("", whole)
    return Quoted(
        whole[:_LONGEST],
        part[:_LONGEST] if is_told else "",
        sides if whole.isascii() else None,
    )


def _below(source: str, marks: str) -> str:
    start = len(marks) - len(marks.lstrip())
    return source[start : len(marks.rstrip())].strip()


def _sides(source: str, marks: str) -> tuple[str, str, str] | None:
    """`a + b` has `~~^~~` below it, `a[0]` `~^^^`: what stands above each."""
    found = re.match(r"(\s*)(~+)(\^+)(~*)\s*$", marks)
    if found is None:
        return None
    left, middle, right = (source[slice(*found.span(group))].strip() for group in (2, 3, 4))
    return left, middle, right
