"""The tables: what can be wrong, by which words it is known, and what people are told of it.

The words that only say "another rank is gone" or "I was told to end" are the launcher's own table."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib.resources import files

LANGUAGES = ("en", "zh")
PYTHON_ERROR, LIBRARY_ERROR, ERROR_LINE = "python-error", "library-error", "error-line"
_CODE = "error code is "
_CODE_FORMS = ("runtime result = ", "retcode: ", "error code is : ", "error code: ", "errno:")
_OF_LAUNCHER = {"lost-peer": "peer-lost", "asked": "asked-to-end"}


class Level(IntEnum):
    """How much a sign explains; the lowest wins over all files."""

    FAULT = 0
    SYMPTOM = 1
    """Something failed, not why."""
    VAGUE = 2
    """The same, and also what is said when a peer is lost."""
    LOST_PEER = 3
    WRAPPER = 4
    """A launcher that saw its child fail."""
    ASKED = 5
    HINT = 6
    """A line that calls itself an error."""
    WARNING = 7


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that can be wrong."""

    name: str
    whose: str
    level: Level


@dataclass(frozen=True, slots=True)
class Signature:
    """Words that are found together where there is such a fault."""

    cause: Cause
    anchor: str
    """The longest: it names the line."""
    others: tuple[str, ...]

    @property
    def weight(self) -> int:
        """How particular it is."""
        return len(self.anchor) + sum(map(len, self.others))


def rows(package: str, name: str) -> Iterator[list[str]]:
    """The rows of a table below its line of titles."""
    lines = files(package).joinpath(name).read_text("utf-8").splitlines()
    kept = [line for line in lines if line and not line.startswith("#")]
    return (line.split("\t") for line in kept[1:])


@cache
def causes() -> Mapping[str, Cause]:
    """All causes by name."""
    return {
        name: Cause(name, whose, Level[level.upper().replace("-", "_")])
        for name, whose, level in rows("jumar.why", "causes.tsv")
    }


@cache
def by_platform() -> Mapping[str, Cause]:
    """What the platform itself saw, by its own name for it."""
    known = causes()
    return {seen: known[name] for seen, name in rows("jumar.why", "platform.tsv")}


@cache
def signatures() -> tuple[Signature, ...]:
    """All signatures, ours and the launcher's."""
    known = causes()
    own = (
        (known[cause], form)
        for cause, _, *words in rows("jumar.why", "signatures.tsv")
        for form in _forms(words)
    )
    launcher = (
        (known[_OF_LAUNCHER[says]], [words])
        for says, _, words in rows("jumar.launch", "faults.tsv")
        if says in _OF_LAUNCHER
    )
    return tuple(_signature(cause, words) for cause, words in (*own, *launcher))


def _forms(words: list[str]) -> Iterator[list[str]]:
    """A row that is nothing but a code of CANN, in every form that its layers and others' give it."""
    yield words
    if len(words) == 1 and words[0].startswith(_CODE):
        yield from ([form + words[0].removeprefix(_CODE)] for form in _CODE_FORMS)


def _signature(cause: Cause, words: list[str]) -> Signature:
    anchor = max(words, key=len)
    others = list(words)
    others.remove(anchor)
    return Signature(cause, anchor, tuple(others))


@cache
def texts(language: str) -> Mapping[str, Mapping[str, str]]:
    """`what` and `remedy` of every cause; under `whose`, what each of those is called."""
    return tomllib.loads(files("jumar.why").joinpath(f"{language}.toml").read_text("utf-8"))
