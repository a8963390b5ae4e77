"""Names and quotations as people write them: C++ out of what a linker calls it, a long message cut between words."""

import re

_MANGLED = re.compile(r"_Z(?:N[rVKRO]*)?(?=[1-9])")
_LENGTH = re.compile(r"[1-9]\d{0,2}")
# How much of a message is quoted.
LONGEST_ERROR = 200


def readable(symbol: str) -> str:
    """`at::_ops::empty::call` of a mangled name, without its arguments; anything else as it is."""
    begin = _MANGLED.match(symbol)
    if begin is None:
        return symbol
    parts: list[str] = []
    at, is_nested = begin.end(), "N" in begin[0]
    while (length := _LENGTH.match(symbol, at)) is not None:
        at = length.end() + int(length[0])
        parts.append(symbol[length.end() : at])
        if not is_nested:
            break
    return "::".join(parts)


def cut(text: str, longest: int) -> str:
    """At most so many characters, not ended within a word, with the sign that there was more."""
    if len(text) <= longest:
        return text
    whole = text[:longest]
    words = whole.rpartition(" ")[0]
    # A long path or name has no blank near its end.
    return f"{words if len(words) > longest // 2 else whole}…"
