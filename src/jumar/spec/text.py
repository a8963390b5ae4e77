"""Text that every part of the platform can keep: no NUL, no half of a character.

A NUL ends a string in C, PostgreSQL refuses it, and half of a surrogate pair has no UTF-8 form. What
holds either is refused where it comes in, not where it is first written down."""

import re
from collections.abc import Iterator
from typing import Any, cast

_FLAW = re.compile("[\x00\ud800-\udfff]")
Place = tuple[str | int, ...]


def flaw_of(text: str) -> str | None:
    """What makes `text` unfit to be kept, in words; None when nothing does."""
    found = _FLAW.search(text)
    if found is None:
        return None
    return "has a NUL character" if found[0] == "\0" else "has half of a surrogate pair"


def storable(text: str) -> str:
    """The text with what makes it unfit written as escapes: for words of a job, which nobody can ask
    to say it again."""
    return _FLAW.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def flaws(data: object) -> Iterator[tuple[Place, str]]:
    """Every unfit text in JSON values, with the way to it; a field's own name counts as well."""
    # Not by recursion: how deep values are nested is up to who sends them.
    waiting: list[tuple[Place, Any]] = [((), data)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str):
            words = flaw_of(value)
            if words is not None:
                yield place, words
        elif isinstance(value, dict):
            fields = cast("dict[object, object]", value)
            for name, inner in fields.items():
                shown = ascii(name)[1:-1] if isinstance(name, str) else str(name)
                waiting.append(((*place, shown), inner))
                if isinstance(name, str) and (words := flaw_of(name)) is not None:
                    yield (*place, shown), f"its name {words}"
        elif isinstance(value, list):
            items = cast("list[object]", value)
            waiting.extend(((*place, number), item) for number, item in enumerate(items))
