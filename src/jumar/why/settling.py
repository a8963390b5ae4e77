"""Between the remedies that the form of a message leaves open, what the log says elsewhere decides.

A row of `settled.tsv` is a narrower form: what has to stand in the log near the fault, and, by the names in its words, which facts
(`facts`) have to be known there."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from jumar.why import measures
from jumar.why.event import Event
from jumar.why.facts import belonging, facts_of
from jumar.why.knowledge import Cause, causes, rows
from jumar.why.naming import plain_reason
from jumar.why.particulars import words
from jumar.why.reasons import is_reason
from jumar.why.symbols import cut

_NAME = re.compile(r"\{(\w+)\}")
_ANY = "-"
_LONGEST = 240
# A C++ exception that nobody caught.
_CPP_SAID = "abort-said"
# What is said in place of the general remedy needs none of these.
_GENERAL = frozenset(("advice", "inside", "between", "install", "perhaps", "names"))


@dataclass(frozen=True, slots=True)
class Settled:
    """A form that the log decides for."""

    name: str
    cause: Cause
    pattern: re.Pattern[str] | None
    """What has to stand near the fault."""


def settle(event: Event, near: Callable[[], str]) -> None:
    """The first narrower form that a log decides for; `near` is what stands around the fault, with its own line."""
    forms = [one for topic in _topics(event) for one in settled().get(topic, ())]
    if not forms:
        return
    text = near()
    facts = facts_of(text, event.values)
    for one in forms:
        found = None if one.pattern is None else one.pattern.search(text)
        if one.pattern is not None and found is None:
            continue
        named = {} if found is None else found.groupdict("")
        given = {key: _flat(value) for key, value in named.items() if value}
        if not measures.fits(one.name, given):
            continue
        given |= measures.told(one.name, given)
        values = {**facts, **_belonging(given), **event.values, **given}
        if needed(one.name) <= values.keys():
            _tell(event, one, values)
            return


def _tell(event: Event, one: Settled, values: Mapping[str, str]) -> None:
    # Why a program ended is said in words that anybody uses.
    reason = plain_reason(values["said"]) if one.name == _CPP_SAID else None
    if reason is not None:
        event.cause, event.particular = reason.cause, reason.name
        event.values = {**event.values, **reason.values}
    else:
        event.cause, event.particular, event.values = one.cause, one.name, {**values}
    event.also = tuple(also for also in event.also if also not in _GENERAL)
    event.is_stated = event.is_literal = event.is_general = False
    event.is_settled = True


def _flat(value: str) -> str:
    """What goes over several lines, in one."""
    return cut(" ".join(value.split()), _LONGEST)


def _belonging(given: Mapping[str, str]) -> Mapping[str, str]:
    """What goes with what a row has found."""
    return {
        **belonging("xformers", _version(given)),
        **belonging("cache", given.get("cache_of", "")),
        **belonging("class", given.get("parent", "")),
    }


def _version(given: Mapping[str, str]) -> str:
    return given.get("have", "").partition("+")[0]


def _topics(event: Event) -> list[str]:
    """The form that is told, or the cause; both where the form is only why, in words that anybody uses."""
    form = event.particular
    if form is None:
        return [event.cause.name]
    # What is told by a line's grammar has a name of two words.
    topic = form.replace(" ", ":")
    return [topic, event.cause.name] if is_reason(form) else [topic]


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
