"""Where in the script's own code torch.compile stopped: it quotes that below its message."""

import re
from collections.abc import Callable, Sequence

MOST_TRACED = 60
"""So many lines of a message are looked at."""
_BEGINS = "from user code:"
_FRAME = re.compile(r'\s*File "(?P<path>[^"]+)", line (?P<line>\d+)')
_LONGEST = 160


def stopped_at(texts: Sequence[str], is_library: Callable[[str], bool]) -> tuple[str, str] | None:
    """The place and its line of source; None where no code of the script's own is quoted."""
    begins = next((at for at, text in enumerate(texts) if text.strip() == _BEGINS), len(texts))
    found = None
    for at in range(begins + 1, len(texts) - 1):
        frame = _FRAME.match(texts[at])
        if frame is None and not texts[at][:1].isspace():
            break
        if frame is not None and not is_library(frame["path"]):
            found = f"{frame['path']}:{frame['line']}", texts[at + 1].strip()[:_LONGEST]
    return found
