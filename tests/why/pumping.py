"""Texts that make an expression try again and again: what one of its repetitions takes, many times over, with an end that does
not fit. Made from the expression itself, so that a new one is tried like the others."""

import re
import signal
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

_op: Any = import_module("re._constants")
_parser: Any = import_module("re._parser")

_REPEATS = (_op.MAX_REPEAT, _op.MIN_REPEAT, _op.POSSESSIVE_REPEAT)
_MANY = 20
_CATEGORIES: dict[Any, str] = {
    _op.CATEGORY_DIGIT: "1",
    _op.CATEGORY_SPACE: " ",
    _op.CATEGORY_NOT_WORD: " ",
}


def seconds_at_most(pattern: re.Pattern[str], length: int, give_up_s: float) -> float:
    """The longest that a search takes in any of the texts of this length."""
    longest = 0.0
    for text in set(_texts(pattern, length)):
        longest = max(longest, _seconds(pattern, text, give_up_s))
        if longest >= give_up_s:
            break
    return longest


def _seconds(pattern: re.Pattern[str], text: str, give_up_s: float) -> float:
    # By the processor's time: on a busy machine the clock runs on while this process waits.
    signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, give_up_s)
    began = time.thread_time()
    try:
        pattern.search(text)
        return time.thread_time() - began
    except TimeoutError:
        return give_up_s
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _give_up(*_: object) -> None:
    raise TimeoutError


def _texts(pattern: re.Pattern[str], length: int) -> Iterator[str]:
    for before, pump in _pumps(_parser.parse(pattern.pattern), ""):
        for one in (pump, *" a1.:-"):
            for repeated in (before + one, one * 25 + before):
                yield (repeated * (length // len(repeated) + 1))[:length] + "\n~"
            yield (before + one * length)[:length] + "\n~"


def _pumps(parsed: Any, before: str) -> Iterator[tuple[str, str]]:
    """What stands before each repetition, and what it repeats."""
    for kind, value in parsed:
        if kind in _REPEATS:
            least, most, inner = value
            if most is _op.MAXREPEAT or most >= _MANY:
                yield before, _sample(inner) or "a"
            yield from _pumps(inner, before)
            before += _sample(inner) * least
            continue
        for inner in _inside(kind, value):
            yield from _pumps(inner, before)
        before += _sample([(kind, value)])


def _inside(kind: Any, value: Any) -> list[Any]:
    if kind is _op.BRANCH:
        return value[1]
    if kind in (_op.ASSERT, _op.ASSERT_NOT):
        return [value[1]]
    return [value[-1]] if kind is _op.SUBPATTERN else []


def _sample(parsed: Any) -> str:
    """A text that fits."""
    found = ""
    for kind, value in parsed:
        if kind is _op.LITERAL:
            found += chr(value)
        elif kind in (_op.ANY, _op.NOT_LITERAL):
            found += "a"
        elif kind is _op.IN:
            found += _member(value)
        elif kind in _REPEATS:
            found += _sample(value[2]) * value[0]
        elif kind in (_op.SUBPATTERN, _op.BRANCH):
            found += _sample(_inside(kind, value)[0])
    return found


def _member(choices: Any) -> str:
    kind, value = choices[0]
    if kind is _op.LITERAL:
        return chr(value)
    if kind is _op.RANGE:
        return chr(value[0])
    return _CATEGORIES.get(value, "a")
