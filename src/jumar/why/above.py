"""What a message refers to: `check the output above`. What is wrong is said there, in lines that call themselves nothing."""

import re
from collections.abc import Sequence

from jumar.why.details import WHAT, Detail
from jumar.why.reading import Line
from jumar.why.signs import Sign, before
from jumar.why.symbols import cut

_REFERS = re.compile(
    r"(?i)\b(?:check|see|look at|read|inspect) (?:the |your )?(?:text |console |printed |full )?(?:output|log|logs|messages?|warnings?|errors?|prints?)\b"
    r"(?! (?:file|at|in|of|for)\b)|\b(?:see|check|printed|listed|shown|reported|described|messages?|warnings?|errors?|output|logs?) above\b"
)
_NOT_BELOW = re.compile(r"(?i)stack ?trace|traceback|\bbelow\b")
_TRACEBACK = "Traceback (most recent call last)"
_SAYS = re.compile(
    r"(?i)\b(?:(?:does|do|did|is|are|was|were|could|can) ?(?:not|n't)|mismatch\w*|missing|invalid|wrong|differs?|fail\w*|error|cannot|no such|not found|corrupt\w*|exceeds?|empty)\b"
)
_FEWEST_WORDS, _LONGEST = 5, 400


def said_above(chosen: Sign) -> list[Detail]:
    """The last line above an exception's stack that says what is wrong, where its message sends there."""
    text = chosen.event.line.text
    if chosen.event.is_line or not _REFERS.search(text) or _NOT_BELOW.search(text):
        return []
    for line in reversed(_above_stack(before(chosen))):
        words = line.text.split()
        if _SAYS.search(line.text) and len(words) >= _FEWEST_WORDS:
            return [Detail(WHAT, "said-above", {"said": cut(" ".join(words), _LONGEST)})]
    return []


def _above_stack(lines: Sequence[Line]) -> Sequence[Line]:
    start = next((at for at, line in enumerate(lines) if _TRACEBACK in line.text), len(lines))
    return lines[:start]
