"""What the form of a message tells beyond its class: which argument, key, file or versions it is about.

Such a form belongs to a class of causes and is known by the form of the message and, where that is not enough, by the line of source
or the file that raised it. Its words name what the message names, so that what to do can be said at once."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jumar.why import measures
from jumar.why.expression import Expression
from jumar.why.knowledge import Cause, causes, rows
from jumar.why.statements import stated
from jumar.why.symbols import cut, readable

# What is asked of None: an attribute, or an entry.
_ASKED = re.compile(r"'NoneType' object (?:has no attribute '(?P<name>\w+)'|is not subscriptable)")
_NONE = "-"
# A pattern of the table that begins so is searched in all lines of source that a stack quotes.
_IN_QUOTED = "|| "
# What has to be None, as `absent` tells it.
_ABSENT = re.compile(r"^>! (?P<none>.+)$", re.MULTILINE)
# What a message says is quoted further than a name: its end tells what has to be.
_LONGEST, _LONGEST_SAID = 120, 240
_ANY = "*"
# Before the form whose lines below are read for this one.
_BELOW = "<"
# A program wraps its sentences as wide as the terminal is.
_WRAPPED = re.compile(r"\s+")
# What a line of a program does not explain away: it is told together with these.
_KEPT = frozenset(
    (
        *("host-memory", "shared-memory", "device-memory", "gpu-assert", "gpu-address"),
        *("killed", "crash", "time-limit", "stopped"),
    )
)


@dataclass(frozen=True, slots=True)
class Particular:
    """One form of a message."""

    name: str
    cause: Cause
    over: frozenset[str]
    """Of which causes it says more; of all if there is none."""
    message: Expression
    where: str | None
    """Searched in the frames and, behind `> `, the line of source; `@name@` is what the message calls so.

    Behind `>~ ` stands what Python's marks tell apart: the left side, the operator and the right side, with tabs between;
    behind `>! ` the expression that is None. With `|| ` it is searched in all lines that a stack quotes."""
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Where:
    """Where an exception was raised."""

    frames: str = ""
    """Files it came through, what is known of the line that raised it, and the script's own line."""
    source: str = ""
    """The statement that raised it."""
    part: str = ""
    """What of that failed, if it is known."""
    quoted: str = ""
    """All lines of source that the stack quotes."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What patterns are searched in: with what failed only, then with the whole statement."""
        parts = (self.part, self.source) if self.part else (self.source,)
        return tuple(f"{self.frames}\n> {part}" for part in parts)


NOWHERE = Where()


@dataclass(frozen=True, slots=True)
class Read:
    """A form that fits, with the names that its words have."""

    name: str
    cause: Cause
    values: dict[str, str]
    is_stated: bool = False
    """It is known what a sentence states, not what it is about."""
    is_literal: bool = False
    """Not even that is sure: a word or two of the sentence told it."""


def read(cause: str, message: str, where: Where = NOWHERE, states: str = "") -> Read | None:
    """The first form that fits a message of this cause; `states` is what is read sentence by sentence where none does."""
    return _read(particulars(), cause, message, where) or (
        _stated(cause, states) or _read(fits_all(), cause, message, where) if states else None
    )


def read_refusal(cause: str, message: str, where: Where) -> Read | None:
    """What a check of the code's own says, whatever single words of it would have told."""
    return _read(fits_all(), cause, message, where)


def read_below(heading: str, text: str) -> Read | None:
    """What the lines below one say that only announces them, by the name of its form or cause."""
    forms = below().get(heading, ())
    return _read(forms, "", _WRAPPED.sub(" ", text), NOWHERE) if forms else None


def _stated(cause: str, states: str) -> Read | None:
    found = stated(cause, states)
    if found is None:
        return None
    return Read(found.name, found.cause, found.values, is_stated=True, is_literal=found.is_literal)


def _read(forms: Sequence[Particular], cause: str, message: str, at: Where) -> Read | None:
    for one in forms:
        if one.over and cause not in one.over:
            continue
        found = one.message.search(message)
        if found is None:
            continue
        for where, there in _places(one.where, found, at):
            named = found.groupdict() | ({} if there is None else there.groupdict())
            said = {name: _value(name, value) for name, value in named.items() if value}
            # A form may leave out a name that its words have: `cannot import name 'x'`, from nowhere.
            whole = {name: value.strip() for name, value in named.items() if value}
            is_whole = all(said.get(name) for name in named) and measures.fits(one.name, whole)
            if is_whole and _is_what_is_none(named, message, where):
                counted = measures.told(one.name, whole)
                return Read(one.name, one.cause, {**one.values, **said, **counted})
    return None


def _places(
    pattern: str | None, message: re.Match[str], at: Where
) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Where a form's place is found, and the match; a form that names no place fits anywhere."""
    if pattern is None:
        yield at.texts[-1], None
        return
    texts = (at.quoted,) if pattern.startswith(_IN_QUOTED) else at.texts
    for text in texts:
        there = _search(pattern.removeprefix(_IN_QUOTED), message, text)
        if there is not None:
            yield text, there


def _value(name: str, text: str) -> str:
    """What the message says; a path without the end of its sentence."""
    whole = text.strip().rstrip(".,;:") if name == "file" else readable(text.strip())
    return cut(whole, _LONGEST_SAID if name == "said" else _LONGEST)


def _is_what_is_none(named: Mapping[str, str | None], message: str, where: str) -> bool:
    """Whether the value that a form takes for the one that is None is asked for what the message names."""
    asked, value = _ASKED.search(message), named.get("value")
    if asked is None or not value:
        return True
    absent = _ABSENT.search(where)
    if absent is not None:
        return value in absent["none"] or absent["none"] in value
    name = asked["name"]
    use = r"\[" if name in (None, "__getitem__") else rf"\.{re.escape(name)}\b"
    return re.search(rf"^>.*{re.escape(value)}[^=;]*?{use}", where, re.MULTILINE) is not None


def _search(pattern: str, message: re.Match[str], where: str) -> re.Match[str] | None:
    for name, value in message.groupdict().items():
        pattern = pattern.replace(f"@{name}@", re.escape(value or ""))
    return re.search(pattern, where, re.MULTILINE)


@cache
def particulars() -> tuple[Particular, ...]:
    """All of the tables, the particular ones first: what a program says in its own words, then forms of exceptions."""
    programs = (
        _particular(name, cause, _over(cause), pattern, _NONE, _NONE)
        for name, cause, pattern, *words in rows("jumar.why", "programs.tsv")
        if not words[0].startswith(_BELOW)
    )
    return (*programs, *(_particular(*row) for row in rows("jumar.why", "particulars.tsv")))


@cache
def below() -> Mapping[str, Sequence[Particular]]:
    """By the form or cause of a line that only announces others, the forms of those."""
    found: dict[str, list[Particular]] = {}
    for name, cause, pattern, *words in rows("jumar.why", "programs.tsv"):
        if words[0].startswith(_BELOW):
            one = _particular(name, cause, _ANY, pattern, _NONE, _NONE)
            found.setdefault(words[0].removeprefix(_BELOW), []).append(one)
    return found


@cache
def fits_all() -> tuple[Particular, ...]:
    """Forms that any message of their causes has."""
    return tuple(_particular(*row) for row in rows("jumar.why", "rest.tsv"))


def _over(cause: str) -> str:
    return " ".join({*causes()} - _KEPT | {cause})


@cache
def words(language: str) -> Mapping[str, Mapping[str, str]]:
    """`what` and `remedy` of every form."""
    tables = (
        tomllib.loads(files("jumar.why").joinpath(f"{table}.{language}.toml").read_text("utf-8"))
        for table in ("programs", "particulars", "statements", "evidence", "settled", "script")
    )
    return {name: told for table in tables for name, told in table.items()}


def _particular(
    name: str, cause: str, over: str, message: str, where: str, values: str
) -> Particular:
    constants = (part.partition("=") for part in values.split(", ") if values != _NONE)
    return Particular(
        name,
        causes()[cause],
        frozenset(() if over == _ANY else over.split()),
        Expression(message),
        None if where == _NONE else where,
        {key: value for key, _, value in constants},
    )
