"""A sign of a fault, and what it is known by: signatures, and where none fits, the kind of its message."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jumar.why.knowledge import (
    LIBRARY_ERROR,
    PYTHON_ERROR,
    Cause,
    Level,
    Signature,
    causes,
    kinds,
)
from jumar.why.raised import Frame
from jumar.why.reading import Line, waited

# Causes that tell little: where the exception was raised tells more.
GENERAL = frozenset((LIBRARY_ERROR, PYTHON_ERROR, "refused", "unsupported", "checked"))
# What a line that calls itself an error may tell of the world; of calls and values it tells too little.
TOLD_BY_LINES = frozenset(
    (
        *("file-missing", "file-exists", "file-forbidden", "disk-broken", "host-allocation"),
        *("module-missing", "library-mismatch", "port-taken", "download", "data-broken"),
        *("network-connect", "process-limit", "checkpoint-fit", "extension-build", "connection"),
        *("access", "encoding", "no-cuda", "device-memory", "device-busy", "device-number"),
        *("driver-old", "gpu-kernel-image", "gpu-assert", "gpu-address", "device-ecc"),
        *(
            "shared-memory",
            "command-missing",
            "device-lost",
            "killed",
            "crash",
            "model-load",
            "checkpoint-broken",
            "kernel-missing",
            "not-there",
            "aborted",
            "node-login",
            "kernel-arguments",
            "compiler-missing",
        ),
    )
)
# What a message that no table knows is told as by a word or two of it: these may be about anything.
_BY_WORDS = GENERAL - {PYTHON_ERROR} | {
    *("configuration", "arguments", "wrong-type", "shape", "dtype", "other-device", "index-range"),
    *("data-broken", "data-pipeline", "data-empty", "not-there", "already-there", "library-use"),
    *("numerical", "model-load", "checkpoint-fit", "autograd", "not-a-number", "too-late"),
    *("library-mismatch", "rank-setup", "parallel-plan", "access", "kernel-missing"),
}
# What an exception's class alone tells: inside a library that is no more than the class.
_BY_CLASS = frozenset(
    ("none-value", "key-missing", "attribute-missing", "unpacking", "name-missing", "import-name")
)
# Within one message: what it says of a lost peer is worth more than that an operator failed.
_VAGUE_LAST = {Level.VAGUE: Level.LOST_PEER + 0.5}

Known = Sequence[Signature]
"""The signatures whose longest words are in the text at all."""


@dataclass(slots=True)
class Event:
    """A sign of a fault."""

    cause: Cause
    line: Line
    at: float | None
    """When what it tells of began, as far as that is known."""
    values: dict[str, str] = field(default_factory=dict[str, str])
    weight: int = 0
    end: int = 0
    """The last byte that belongs to it."""
    is_general: bool = False
    """Known only by the kind of its message, and not the script's own."""
    is_hint: bool = False
    """Only a line that calls itself an error."""
    also: tuple[str, ...] = ()
    """Sentences that are added to its remedy."""
    particular: str | None = None
    """The form of its message, where that says more than its cause."""
    is_line: bool = False
    """A line of its own, no exception."""
    below: str = ""
    """The line below it, where its sentence goes on there."""
    is_stated: bool = False
    """That form is one of a sentence, whatever it is about."""
    is_literal: bool = False
    """That form is told by a word or two of the sentence."""
    is_settled: bool = False
    """What stands around it has decided for that form."""
    is_outlived: bool = False
    """The program trained on below it."""
    stack: tuple[Frame, ...] = ()
    """The calls of the script's own code, the outermost first."""

    @property
    def is_unsure(self) -> bool:
        """Whether no table knows its message, nor does that say what to do: it is only read literally."""
        if "advice" in self.also:
            return False
        if self.is_literal:
            return True
        is_by_words = self.particular is None and not self.weight
        name = self.cause.name
        return is_by_words and (name in _BY_WORDS or (self.is_general and name in _BY_CLASS))

    @property
    def level(self) -> Level:
        """How much it explains."""
        if self.is_hint:
            return Level.HINT
        return max(self.cause.level, Level.GENERAL) if self.is_general else self.cause.level


def kind_by(said: str, *, is_own: bool) -> Cause:
    """What a message tells that no signature knows, by its beginning."""
    general = next((cause for cause, pattern in kinds() if pattern.search(said)), None)
    return general or causes()[PYTHON_ERROR if is_own else LIBRARY_ERROR]


def is_asked_back(text: str) -> bool:
    """Whether CANN only says that it has no device to ask for an error's text: that follows whatever failed first."""
    return "rtGetDevMsg execute failed" in text or "[FUNC:GetDevErrMsg]" in text


def best_of(found: list[Signature]) -> Signature | None:
    """Of signatures that fit, the one that explains most."""
    return min(
        _most_particular(found),
        key=lambda one: (_VAGUE_LAST.get(one.cause.level, one.cause.level), -one.weight),
        default=None,
    )


def _most_particular(found: list[Signature]) -> list[Signature]:
    """Without those whose words another one has, with more: what a code means depends on who returned it."""
    return [one for one in found if not any(one.words < other.words for other in found)]


def began(lines: Sequence[Line]) -> float | None:
    """When what these lines tell of began, as far as they say."""
    at = next((line.at for line in lines if line.at is not None), None)
    return None if at is None else at - waited(" ".join(line.text for line in lines))
