"""What `jumar why` found: the first fault of a training, whose it is, and what to do."""

from collections.abc import Mapping
from dataclasses import dataclass

UNKNOWN = "unknown"
"""Whose a fault is when the logs do not tell."""
FAULT, UNSURE, CONSEQUENCE, NOTHING = "fault", "unsure", "consequence", "nothing"
"""What kind of answer it is: an unsure one reads a message literally that is not known, a consequence says which log
holds the fault, and how to get it."""
LOOK_NEXT = frozenset((UNSURE, CONSEQUENCE))
"""Answers whose remedy says where to look, not what to mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A line of a log that tells of a fault."""

    file: str
    line: int
    text: str
    cause: str
    rank: int | None = None
    at: float | None = None
    """Unix seconds, by the clock that wrote the line; without a zone in it, taken as UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`whose` is unknown where the logs do not tell; `what` then says what they do tell.

    `cause` is None where nothing at all was found."""

    cause: str | None
    kind: str = FAULT
    """fault; unsure, where the message is not known and only read literally; consequence, where another log holds the fault
    and `remedy` says which; nothing."""
    whose: str
    """script, card, network, host, memory or unknown; none where nothing is wrong."""
    what: Mapping[str, str]
    """By language."""
    remedy: Mapping[str, str]
    evidence: tuple[Evidence, ...] = ()
    """The fault itself first."""
    followed: tuple[Evidence, ...] = ()
    """What came of it: first lines only."""
    rank: int | None = None
    place: str | None = None
    """Where in the script it was raised: file:line."""
    files: int = 0
    bytes: int = 0
