"""Whole lines in the reader's language, in the terminal and on pages: errors, hints, notes, plans, help.

They are made in many rooms, also on the server, which does not know who will read them. So the finished
English line is looked up: `no job {job}` in the table stands for any text in that place. A line that the
table does not have stays English; one that begins with a place (`job.yaml: name: …`) is looked up without it too."""

import json
import re
import string
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

# Errors may quote anything; a line of ours is short, and names few places.
_LONGEST = 800
_MOST_PLACES = 3
# The file is TOML of one form only, one line each; tomllib would take 50 ms of every command for it.
_PAIR = re.compile(r'^("(?:[^"\\]|\\.)*") = ("(?:[^"\\]|\\.)*")$', re.MULTILINE)


def spoken(text: str, language: str) -> str:
    """`text` in `language`, line by line."""
    if language == "en":
        return text
    return "\n".join(_line(line, language) for line in text.split("\n"))


@cache
def table(language: str) -> Mapping[str, str]:
    """English lines and their translations; `{name}` stands for a value."""
    text = files("jumar.words").joinpath(f"sentences.{language}.toml").read_text("utf-8")
    return {json.loads(line): json.loads(words) for line, words in _PAIR.findall(text)}


class _Line(NamedTuple):
    """A line with values: the words around them, in order, and all of it in English and in the language."""

    pieces: tuple[str, ...]
    english: str
    words: str

    def may_be(self, text: str) -> bool:
        """Whether its words are in the text, which is much quicker to tell than to make an expression of all."""
        at = 0
        for piece in self.pieces:
            at = text.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return True


@cache
def _lines(language: str) -> tuple[_Line, ...]:
    """The lines with values, those with the most words of their own first."""
    made = [
        _Line(tuple(literal for literal, *_ in string.Formatter().parse(line)), line, words)
        for line, words in table(language).items()
        if "{" in line
    ]
    return tuple(sorted(made, key=lambda one: -sum(map(len, one.pieces))))


@cache
def _expression(line: str) -> "re.Pattern[str]":
    parts: list[str] = []
    for literal, name, _, _ in string.Formatter().parse(line):
        # What somebody typed is quoted, and may be nothing.
        amount = "*" if literal.endswith("'") else "+"
        parts += [re.escape(literal), f"(?P<{name}>.{amount}?)" if name else ""]
    return re.compile("".join(parts))


def _line(line: str, language: str) -> str:
    # Some lines are indented, some come after an empty one.
    bare = line.strip()
    if not bare or len(bare) > _LONGEST:
        return line
    words = _known(bare, language) or _placed(bare, language)
    return line if words is None else line.replace(bare, words, 1)


def _placed(bare: str, language: str) -> str | None:
    """A line that says where before it says what."""
    places = bare.split(": ", _MOST_PLACES)
    for count in range(1, len(places)):
        words = _known(": ".join(places[count:]), language)
        if words is not None:
            return f"{': '.join(places[:count])}：{words}"
    return None


def _values(values: Mapping[str, str], language: str) -> Mapping[str, str]:
    """As they are, but for the state of a job, which has a name in each language."""
    state = values.get("state")
    if state is None:
        return values
    # Late: most lines have none, and the catalogue takes a moment.
    from jumar.words.reasons import catalogue

    return {**values, "state": str(catalogue(language)["state"].get(state, state))}


def _known(bare: str, language: str) -> str | None:
    # With a brace it is a line of the table only by its looks: somebody's value is called `{job}`.
    exact = table(language).get(bare) if "{" not in bare else None
    if exact is not None:
        return exact.format()
    for line in _lines(language):
        found = _expression(line.english).fullmatch(bare) if line.may_be(bare) else None
        if found:
            return line.words.format(**_values(found.groupdict(), language))
    return None
