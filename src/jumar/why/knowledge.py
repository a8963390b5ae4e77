"""The tables: what can be wrong, by which words it is known, and what people are told of it.

The words that only say "another rank is gone" or "I was told to end" are the launcher's own table."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib.resources import files

# Where thousands of anchors take longer to look for than words to tell apart.
_LONG = 64 * 1024
_WORD = re.compile(r"\w+")
LANGUAGES = ("en", "zh")
PYTHON_ERROR, LIBRARY_ERROR, ERROR_LINE = "python-error", "library-error", "error-line"
OPTIONAL_MISSING, EXTENSION_BUILD = "optional-missing", "extension-build"
CUT_OFF = "cut-off"
STALLED = "stalled"
API_GONE, API_NEW = "api-gone", "api-new"
# How the layers above CANN and HCCL write a code of theirs.
_CODE_FORMS = {
    "acl": (
        *(
            "error code is ",
            "error code is : ",
            "error code: ",
            "error no is ",
            "runtime result = ",
        ),
        *("retcode: ", "retCode=", "errno:", "error code is:", "error code:", "ret = "),
        *(
            "errorCode = ",
            "errorCode=",
            "errorCode: ",
            "aclrt\tfailed : ",
            "aclrt\tfailed: ",
            "aclrt\tfailed, ret[",
            "aclInit\tfailed : ",
        ),
    ),
    "hccl": ("HCCL function error\terror code is ", "HCCL error in\terror code is "),
    "torch_npu": ("ERR",),
}
# What AMD's cards say is what NVIDIA's say, under another name.
_ALIKE = ("CUDA error: ", "HIP error: ")
PEER_LOST, PEER_LATE = "peer-lost", "peer-late"
_OF_LAUNCHER = {"lost-peer": PEER_LOST, "asked": "asked-to-end"}


class Level(IntEnum):
    """How much a sign explains; the lowest wins over all files."""

    FAULT = 0
    GENERAL = 1
    """A fault of a library that is known only by what kind of thing its message says."""
    SYMPTOM = 2
    """Something failed, not why."""
    VAGUE = 3
    """The same, and also what is said when a peer is lost."""
    LOST_PEER = 4
    WRAPPER = 5
    """A launcher that saw its child fail."""
    ASKED = 6
    HINT = 7
    """A line that calls itself an error."""
    WARNING = 8


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
    words: frozenset[str]

    @property
    def weight(self) -> int:
        """How particular it is."""
        return len(self.anchor) + sum(map(len, self.others))

    def is_in(self, text: str, around: str) -> bool:
        """Whether its anchor is in this text, and all else in what is around it."""
        return has(self.anchor, text) and all(has(word, around) for word in self.others)


def has(word: str, text: str) -> bool:
    """Whether a word is in a text; one that ends with a number, as that whole number."""
    at = text.find(word)
    while at >= 0 and word[-1].isdigit() and text[at + len(word) : at + len(word) + 1].isdigit():
        at = text.find(word, at + 1)
    return at >= 0


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
    own = [(known[cause], words) for cause, _, *words in rows("jumar.why", "signatures.tsv")]
    programs = (
        (known[cause], words)
        for _, cause, _, *words in rows("jumar.why", "programs.tsv")
        # By itself such a row finds no line: it is one of forms only, or of what stands below or around another line.
        if words != ["-"] and not words[0].startswith(("<", "~"))
    )
    alike = [
        (cause, [word.replace(*_ALIKE) for word in words])
        for cause, words in own
        if any(_ALIKE[0] in word for word in words)
    ]
    codes = (
        (known[cause], (form + code).split("\t"))
        for layer, code, cause in rows("jumar.why", "codes.tsv")
        for form in _CODE_FORMS[layer]
    )
    launcher = (
        (known[_OF_LAUNCHER[says]], [words])
        for says, _, words in rows("jumar.launch", "faults.tsv")
        if says in _OF_LAUNCHER
    )
    found = (*own, *alike, *codes, *launcher, *programs)
    return tuple(_signature(cause, words) for cause, words in found)


def signatures_in(text: str) -> list[Signature]:
    """Those whose anchor is in a text."""
    if len(text) < _LONG:
        return [one for one in signatures() if one.anchor in text]
    # To look for thousands of anchors takes longer than to make a list of the words that there are.
    words = {"", *_WORD.findall(text)}
    return [one for one, word in _inner_words() if word in words and one.anchor in text]


@cache
def _inner_words() -> tuple[tuple[Signature, str], ...]:
    """Each signature with a word that is whole in its anchor, or none: any text with the anchor has it as a word."""
    return tuple((one, max(_inside(one.anchor), key=len, default="")) for one in signatures())


def _inside(anchor: str) -> Iterator[str]:
    for found in _WORD.finditer(anchor):
        if found.start() > 0 and found.end() < len(anchor):
            yield found[0]


@cache
def kinds() -> tuple[tuple[Cause, re.Pattern[str]], ...]:
    """What the message of an exception that no signature knows tells in general; the first that fits counts."""
    return _patterns("kinds.tsv")


@cache
def forms() -> tuple[tuple[Cause, re.Pattern[str]], ...]:
    """Whole lines that tell of a fault by their form."""
    return _patterns("lines.tsv")


@cache
def places() -> tuple[tuple[Cause, str], ...]:
    """What an exception is about, by a part of the path of the file that raised it."""
    known = causes()
    return tuple((known[cause], part) for cause, part in rows("jumar.why", "places.tsv"))


def _patterns(name: str) -> tuple[tuple[Cause, re.Pattern[str]], ...]:
    known = causes()
    return tuple((known[cause], re.compile(pattern)) for cause, pattern in rows("jumar.why", name))


def _signature(cause: Cause, words: list[str]) -> Signature:
    # A word behind `@` may stand in the frames of the traceback, so it does not name the line.
    anchor = max((word for word in words if not word.startswith("@")), key=len)
    others = [word.removeprefix("@") for word in words if word != anchor]
    return Signature(cause, anchor, tuple(others), frozenset((anchor, *others)))


@cache
def texts(language: str) -> Mapping[str, Mapping[str, str]]:
    """`what` and `remedy` of every cause; under `whose`, what each of those is called."""
    return tomllib.loads(files("jumar.why").joinpath(f"{language}.toml").read_text("utf-8"))
