"""Regular expressions that are compiled when they are first used.

There are some two hundred of them; a small repository needs few, and compiling all would take a tenth
of its run. Those that each port needs are compiled as they are."""

import re
from typing import Any, AnyStr, cast

_USED_OFTEN = ("search", "match", "fullmatch", "finditer", "findall", "sub")


class _Pattern:
    """Becomes like the compiled expression on the first use."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._pattern: Any = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            # Asked by tools that look at objects, which is no use.
            raise AttributeError(name)
        compiled: re.Pattern[Any] = re.compile(self._pattern, self._flags)
        # Later uses find these at once and do not get here.
        self.__dict__.update((method, getattr(compiled, method)) for method in _USED_OFTEN)
        return getattr(compiled, name)


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, without its cost until the expression is used."""
    return cast("re.Pattern[AnyStr]", _Pattern(pattern, flags))
