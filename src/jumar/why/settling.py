"""Between the remedies that the form of a message leaves open, what the log says elsewhere decides.

A row of `settled.tsv` is a narrower form: what has to stand in the log near the fault, and, by the names in its words, which facts
(`facts`) have to be known there."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from jumar.why.event import Event
from jumar.why.facts import belonging, facts_of
from jumar.why.knowledge import Cause, causes, rows
from jumar.why.particulars import words

_NAME = re.compile(r"\{(\w+)\}")
_ANY = "-"
# What is said in place of the general remedy needs none of these.
_GENERAL = frozenset(("advice", "inside", "between", "install", "perhaps", "names"))


@dataclass(frozen=True, slots=True)
class Settled:
    """A form that the log decides for."""

    name: str
    cause: Cause
    pattern: re.Pattern[str] | None
    """What has to stand near the fault."""


def is_open(event: Event) -> bool:
    """Whether what stands near a fault may say more of it."""
    return _topic(event) in settled()


def settle(event: Event, text: str) -> None:
    """The first narrower form that a log decides for; `text` is what stands near the fault, with its own line."""
    facts = facts_of(text, event.values)
    for one in settled()[_topic(event)]:
        found = None if one.pattern is None else one.pattern.search(text)
        if one.pattern is not None and found is None:
            continue
        named = {} if found is None else found.groupdict("")
        given = {key: _flat(value) for key, value in named.items() if value}
        values = {**facts, **belonging("xformers", _version(given)), **event.values, **given}
        if needed(one.name) <= values.keys():
            event.cause, event.particular, event.values = one.cause, one.name, values
            event.also = tuple(also for also in event.also if also not in _GENERAL)
            event.is_stated = event.is_literal = event.is_general = False
            event.is_settled = True
            return


def _flat(value: str) -> str:
    """What goes over several lines, in one."""
    return " ".join(value.split())


def _version(given: Mapping[str, str]) -> str:
    return given.get("have", "").partition("+")[0]


def _topic(event: Event) -> str:
    # What is told by a line's grammar has a name of two words.
    return (event.particular or event.cause.name).replace(" ", ":")


@cache
def needed(form: str) -> frozenset[str]:
    """The names that the words of a form have."""
    told = words("en")[form]
    return frozenset(_NAME.findall(told["what"] + told["remedy"]))


@cache
def settled() -> Mapping[str, Sequence[Settled]]:
    """The rows of the table, by the form or cause that they narrow."""
    found: dict[str, list[Settled]] = {}
    for name, cause, over, pattern in rows("jumar.why", "settled.tsv"):
        compiled = None if pattern == _ANY else re.compile(pattern, re.MULTILINE)
        for topic in over.split():
            found.setdefault(topic, []).append(Settled(name, causes()[cause], compiled))
    return found
