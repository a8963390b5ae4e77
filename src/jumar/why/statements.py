"""What a message states, sentence by sentence, where no form knows what it is about: that a rule is not kept, that something
has to be given, that two things differ.

Each sentence is taken by itself and without what stands before it (who says it), so that its subject is where it begins."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from jumar.why.knowledge import Cause, causes, rows

SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`'\"(])|\n+|(?<=\.)\s{2,}")
_SAME = "="
_ANY_VALUE = "+"
_WEAK = "~"
_LITERAL = "?"
# Causes that only say of which kind a message is, and say it truly.
_KINDS = frozenset(
    (
        *("refused", "unsupported", "checked", "configuration", "arguments", "wrong-type"),
        *("not-there", "key-missing", "library-use", "attribute-missing", "already-there"),
    )
)
# Causes that say nothing yet, or were told by the place alone.
_OPEN = frozenset(
    (
        *("python-error", "library-error", "import-name", "data-pipeline", "data-broken"),
        "download",
    )
)
# Causes that a single word may have told: what a sentence says as a whole is worth more.
_OF_WORDS: frozenset[str] = frozenset(
    (
        *(
            "shape",
            "dtype",
            "other-device",
            "autograd",
            "not-a-number",
            "index-range",
            "rank-setup",
        ),
        *("data-empty", "none-value", "checkpoint-fit", "model-load", "parallel-plan", "access"),
        *("too-late", "numerical", "file-missing", "module-missing", "library-mismatch"),
    )
)
# Who says it: `[tag] `, `For 'MatMul', `, `Trainer: `, `fit(): `.
_WHO = re.compile(
    r"(?:\[[\w /:.=-]{1,60}\]:? +|(?:[Ee]rror|ERROR|FATAL|Oops|Sorry|Assertion failed)[:!,]+ +"
    r"|For (?:primitive)?[\[ ]?['\"`]?[\w.]{1,60}['\"`]?\]?(?:,? the |, )"
    r"|(?:[A-Za-z_][\w.]{0,60}\([^()\n]{0,40}\)|[A-Z][a-z0-9]+[A-Z]\w{0,60}|[A-Z][A-Za-z-]{1,20}): )"
)
_CHOICE = "choice-said"
_LISTS = re.compile(
    r"^(?:[Aa]vailable|[Ss]upported|[Vv]alid|[Pp]ossible|[Aa]llowed|[Kk]nown|[Rr]egistered|[Cc]hoices|[Oo]ptions)\b[^\n:\[({]{0,40}"
    r"(?::|\bare\b|\bis\b) ?(?:dict_keys\(|one of )?[\[({'\"]"
)
_MOST_HEADS, _MOST_SENTENCES, _LONGEST = 3, 5, 200


@dataclass(frozen=True, slots=True)
class Statement:
    """One form of a sentence."""

    name: str
    cause: Cause | None
    """What it is told as; None: as what it is known."""
    over: frozenset[str]
    is_weak: bool
    """It tells little: any other sentence tells more."""
    is_literal: bool
    """What it is about is not known."""
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Stated:
    """A form that a sentence has, and the sentence."""

    name: str
    cause: Cause
    values: dict[str, str]
    is_weak: bool
    is_literal: bool


def stated(cause: str, message: str) -> Stated | None:
    """What the first telling sentence of an exception's message states."""
    sentences = list(_sentences(message))
    listing = _listing(cause, sentences)
    if listing is not None:
        return listing
    for is_weak in (False, True):
        for index, sentence in enumerate(sentences):
            for one in statements():
                if one.is_weak is is_weak and cause in one.over:
                    found = one.pattern.search(sentence)
                    if found is not None:
                        return _stated(one, cause, sentences[: index + 1], found)
    return None


def _listing(cause: str, sentences: list[str]) -> Stated | None:
    """That something is not one of those that a later sentence lists: whatever was said before, the list tells more."""
    choice = next(one for one in statements() if one.name == _CHOICE)
    if cause not in choice.over:
        return None
    for index, sentence in enumerate(sentences[1:], 1):
        found = _LISTS.search(sentence)
        if found is not None:
            return _stated(choice, cause, sentences[: index + 1], found)
    return None


def _stated(one: Statement, cause: str, said: list[str], found: re.Match[str]) -> Stated:
    # What the message's kind is stays true; only what a word of it told may be another matter.
    told_as = causes()[cause] if one.cause is None or cause in _KINDS else one.cause
    named = {name: value.strip() for name, value in found.groupdict().items() if value}
    values = {"said": _shortened(" ".join(said)), **named}
    return Stated(one.name, told_as, values, one.is_weak, one.is_literal)


def _sentences(message: str) -> Iterator[str]:
    for sentence in SENTENCE.split(message)[:_MOST_SENTENCES]:
        text = _unquoted(sentence.strip())
        for _ in range(_MOST_HEADS):
            who = _WHO.match(text)
            text = text if who is None else text[who.end() :]
        # A single word is a name, and states nothing.
        if " " in text:
            yield text


def _unquoted(text: str) -> str:
    """A message that Python shows in quotes, as of a KeyError."""
    quote = text[:1]
    is_quoted = quote in ("'", '"') and text.endswith(quote) and " " in text
    # `'a' and 'b'` has two of them inside, `'can't be'` one.
    return text[1:-1] if is_quoted and text[1:-1].count(quote) in (0, 1) else text


def _shortened(sentence: str) -> str:
    text = sentence.rstrip(". ")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


@cache
def statements() -> tuple[Statement, ...]:
    """All of the table, in its order."""
    return tuple(
        Statement(
            name,
            None if cause == _SAME else causes()[cause],
            _KINDS | _OPEN | _OF_WORDS if over.startswith(_ANY_VALUE) else _KINDS | _OPEN,
            over.startswith(_WEAK),
            over.endswith(_LITERAL),
            re.compile(pattern),
        )
        for name, cause, over, pattern in rows("jumar.why", "statements.tsv")
    )
