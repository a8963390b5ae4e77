"""Names of C++ as people write them, out of what a linker calls them."""

import re

_MANGLED = re.compile(r"_Z(?:N[rVKRO]*)?(?=[1-9])")
_LENGTH = re.compile(r"[1-9]\d{0,2}")


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
