"""What a line of any program tells by its grammar: why it failed, what it is about, and who says so.

An errno's text, a status or a refusal means the same whoever writes it, and the path, address or name beside it is what to look at. It is
asked only of lines that no table of messages knows: it says less than those do."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jumar.why.advice import advice
from jumar.why.knowledge import Cause, causes, rows
from jumar.why.particulars import Read

_NONE = "-"
_OURS, _BARE = "reason ", "-bare"
"""What is told where the line does not name what it is about."""
_QUOTES, _UNQUOTES = "\"'`‘“", "\"'`’”"
_THINGS = {
    "path": re.compile(
        r"(?<![\w:/.\\])(?:~|\.{1,2})?/[\w.+@%~*=-]+(?:/[\w.+@%~*=:-]+)*/?|\b[A-Z]:\\[^\s'\":]+"
    ),
    "library": re.compile(r"\b[\w.+-]*lib[\w.+-]+\.so[\w.]*|(?<= -l)\w+"),
    "address": re.compile(
        r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?![\w.])|\blocalhost(?::\d{1,5})?"
        # A line of source is none.
        r"|\b[a-zA-Z][\w-]*(?:\.(?!(?:go|py|cc|cpp|c|h|rs|java|ts|js):)[\w-]+)+:\d{2,5}\b"
    ),
    "url": re.compile(r"\b[a-z][a-z0-9]{1,9}://[^\s\"'<>)\],]+"),
    # What is said right before: `vLLM binary not found`.
    "words": re.compile(r"(?<![\w.-])[A-Za-z][\w./@-]{1,60}(?: [\w./@-]{1,60}){0,2}(?=\W{0,2}$)"),
    "quoted": re.compile(rf"[{_QUOTES}](?=\S)([^{_QUOTES}{_UNQUOTES}\n]{{1,100}})[{_UNQUOTES}]"),
}
_LINKING = re.compile(
    r"(?i)^(?:(?:the|an?|if|or|and|error|failed|is|was|were|be|could|can|does|that|this|of|in|by)\b ?)+"
    r"|(?: (?:is|was|were|are|could|can|has|have|been))+$"
)
_LONGEST_THING = 120
_END = ".,;:\\"
# What a name in a line is not: placeholders of no use to anybody.
_EMPTY = frozenset(("", "/", "...", "<nil>", "n/a", "none", "null", "unknown"))


@dataclass(frozen=True, slots=True)
class _Reason:
    name: str
    cause: Cause
    things: tuple[str, ...]
    pattern: re.Pattern[str]


def reason_of(text: str) -> Read | None:
    """Why, whoever says it; None if this is no reason that is known."""
    for one in _reasons():
        found = one.pattern.search(text)
        if found is None:
            continue
        named = {name: value for name, value in found.groupdict().items() if value}
        kind = {"kind": named.pop("kind")} if "kind" in named else {}
        thing = next(iter(named.values()), "") or _thing(text, found.start(), one.things)
        thing = thing.strip().rstrip(_END)[:_LONGEST_THING]
        if thing.lower() not in _EMPTY:
            return Read(_OURS + one.name, one.cause, {"thing": thing, **kind})
        if "bare" in _tables("en")[one.name]:
            return Read(_OURS + one.name + _BARE, one.cause, {})
    return None


def is_reason(form: str) -> bool:
    """Whether a form is the grammar of a line, which knows less than what stands around it."""
    return form.startswith(_OURS)


def speaker_of(text: str, cause: Cause) -> Read | None:
    """Who says so, where no more is known; its cause stays what it is."""
    for name, pattern in _speakers():
        found = pattern.search(text)
        if found is not None and (found["said"] or "").strip():
            said = {key: value.strip() for key, value in found.groupdict().items() if value}
            return Read(_OURS + name, cause, said)
    return None


def advised_by(text: str) -> dict[str, str]:
    """What a line itself says to do."""
    said = advice(text)
    return {"advice": said} if said else {}


def _thing(text: str, at: int, kinds: tuple[str, ...]) -> str:
    """What is named nearest before the reason, else behind it; of the first kind that there is."""
    for kind in kinds:
        pattern = _THINGS[kind]
        before = [found[found.lastindex or 0] for found in pattern.finditer(text[:at])]
        behind = pattern.search(text, at)
        nearest = before[-1:] or ([] if behind is None else [behind[behind.lastindex or 0]])
        if kind == "words":
            nearest = [_LINKING.sub("", one) for one in before[-1:]]
        if nearest and nearest[0].strip(_END).lower() not in _EMPTY:
            return nearest[0]
    return ""


@cache
def _reasons() -> tuple[_Reason, ...]:
    return tuple(
        _Reason(
            name,
            causes()[cause],
            () if things == _NONE else tuple(things.split()),
            re.compile(pattern),
        )
        for name, cause, things, pattern in rows("jumar.why", "reasons.tsv")
    )


@cache
def _speakers() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(pattern)) for name, pattern in rows("jumar.why", "speakers.tsv"))


def patterns() -> Mapping[str, re.Pattern[str]]:
    """Every expression, by a name."""
    reasons = {f"{one.name} {number}": one.pattern for number, one in enumerate(_reasons())}
    return {**reasons, **dict(_speakers()), **_THINGS}


@cache
def _tables(language: str) -> Mapping[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    for table in ("reasons", "speakers"):
        text = files("jumar.why").joinpath(f"{table}.{language}.toml").read_text("utf-8")
        found |= tomllib.loads(text)
    return found


@cache
def words(language: str) -> Mapping[str, Mapping[str, str]]:
    """`what` and `remedy` of every reason, with what it is about and without, and of every speaker."""
    found: dict[str, Mapping[str, str]] = {}
    for name, told in _tables(language).items():
        if "what" in told:
            found[_OURS + name] = {"what": told["what"], "remedy": told["remedy"]}
        if "bare" in told:
            found[_OURS + name + _BARE] = {"what": told["bare"], "remedy": told["remedy"]}
    return found
