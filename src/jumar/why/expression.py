"""An expression of a table, compiled when it is first needed.

Most of some two thousand can never fit a message, since it lacks words that they need: these are looked for first, so that an answer
need not wait for the others to be compiled."""

import re
from dataclasses import dataclass, field

_PLAIN_GROUP = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))")
_FLAGS = re.compile(r"\(\?([aiLmsux]+)\)")
_OPTIONAL = ("?", "*", "{0", "{,")
_REPEATED = ("+", "{")
_REPETITION = re.compile(r"(?:[?*+]|\{(?:\d+(?:,\d*)?|,\d*)\})[?+]?")
_BREAKS = "^$."
# Letters that stand for themselves, but for one that is repeated or may be left out.
_LETTERS = re.compile(r"[A-Za-z0-9 _,:;'\"/<>=~%&@#!-]+(?![?*+{])")
_MOST_BRANCHES = 24


@dataclass(slots=True)
class Expression:
    """A pattern, and words of which whatever it fits has one."""

    pattern: str
    needs: tuple[str, ...] = field(init=False)
    """Nothing where no words are sure."""
    ignores_case: bool = field(init=False)
    _compiled: re.Pattern[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        flags = _FLAGS.match(self.pattern)
        self.ignores_case = flags is not None and "i" in flags[1]
        # In one that is written with blanks for the eye none of them counts.
        needs = () if flags is not None and "x" in flags[1] else needed(self.pattern)
        self.needs = tuple(word.lower() for word in needs) if self.ignores_case else needs

    @property
    def compiled(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self.pattern)
        return self._compiled

    def search(self, text: str) -> re.Match[str] | None:
        if self.needs:
            told = text.lower() if self.ignores_case else text
            if not any(word in told for word in self.needs):
                return None
        return self.compiled.search(text)


def needed(pattern: str) -> tuple[str, ...]:
    """The longest text that stands in the pattern as it is and cannot be left out; of a choice, that of each branch."""
    found, end = _longest(pattern, 0)
    # What does not end at the end was not understood.
    return found if end == len(pattern) else ()


def _longest(pattern: str, at: int) -> tuple[tuple[str, ...], int]:
    """That of the pattern from there to its end, or to the end of the group that it is in; and where that is."""
    branches: list[tuple[str, ...]] = []
    best: tuple[str, ...] = ()
    run = ""
    while at < len(pattern) and pattern[at] != ")":
        letters = _LETTERS.match(pattern, at)
        if letters is not None:
            run, at = run + letters[0], letters.end()
            continue
        if pattern[at] == "|":
            branches.append(_longer(best, (run,)))
            best, run, at = (), "", at + 1
            continue
        letter, inner, after = _one(pattern, at)
        is_optional = pattern.startswith(_OPTIONAL, after)
        if letter and not is_optional:
            run += letter
        if not letter or is_optional or pattern.startswith(_REPEATED, after):
            best, run = _longer(best, (run,), () if is_optional else inner), ""
        at = _behind_repetition(pattern, after)
    branches.append(_longer(best, (run,)))
    is_sure = all(branches) and sum(map(len, branches)) <= _MOST_BRANCHES
    return (tuple(word for branch in branches for word in branch) if is_sure else ()), at


def _longer(*found: tuple[str, ...]) -> tuple[str, ...]:
    """Of these that whose shortest word is longest; nothing if that has none."""
    best = max(found, key=_shortest)
    return best if _shortest(best) else ()


def _shortest(words: tuple[str, ...]) -> int:
    return min(map(len, words), default=0)


def _one(pattern: str, at: int) -> tuple[str, tuple[str, ...], int]:
    """The letter that stands there, or else what a group needs; and where the next one begins."""
    letter = pattern[at]
    if letter == "\\":
        escaped = pattern[at + 1]
        return ("" if escaped.isalnum() else escaped), (), at + 2
    if letter == "[":
        return "", (), _behind_class(pattern, at)
    if letter == "(":
        return "", *_group(pattern, at)
    return ("" if letter in _BREAKS else letter), (), at + 1


def _group(pattern: str, at: int) -> tuple[tuple[str, ...], int]:
    """What a group needs; one that only looks around, or is of another kind, needs nothing."""
    plain = _PLAIN_GROUP.match(pattern, at)
    begins = plain.end() if plain is not None else at + 2
    inner, end = _longest(pattern, begins)
    return (inner if plain is not None else ()), end + 1


def _behind_class(pattern: str, at: int) -> int:
    at += 2 if pattern[at + 1] == "^" else 1
    # The first bracket is a letter of it.
    first = at
    while pattern[at] != "]" or at == first:
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


def _behind_repetition(pattern: str, at: int) -> int:
    found = _REPETITION.match(pattern, at)
    return at if found is None else found.end()
