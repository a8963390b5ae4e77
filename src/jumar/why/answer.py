"""What is said of the sign that was chosen: the words, who it was, and the lines that show it."""

import re
from collections.abc import Iterable, Mapping, Sequence

from jumar.spec.verdicts import (
    CONSEQUENCE,
    FAULT,
    NOTHING,
    UNKNOWN,
    UNSURE,
    Evidence,
    Verdict,
)
from jumar.why.beside import beside
from jumar.why.details import FIRST, REMEDY, WHAT, Detail, details_of, has_details, is_consequence
from jumar.why.event import Event
from jumar.why.knowledge import LANGUAGES, LIBRARY_ERROR, PYTHON_ERROR, Cause, Level, texts
from jumar.why.particulars import words
from jumar.why.reasons import words as words_of_reasons
from jumar.why.reports import has_report, told_by_report
from jumar.why.scan import line_number
from jumar.why.signs import Logs, Sign, around, opened
from jumar.why.waited import words as words_of_waits

MOST_SAME = 3
"""So many lines that tell of the same are shown."""
_UNEXPLAINED = frozenset((LIBRARY_ERROR, PYTHON_ERROR))
# Of what the code's authors say themselves the reason may be what they caught.
_AUTHORS_SAY = _UNEXPLAINED | {"checked", "refused"}
_SHOWN = 300
_SPACE = {"en": " ", "zh": ""}
"""What stands between two sentences."""
_STOPS = (".", "。", "!", "?", "！", "？", "…")
_MOST_RANKS = 16
_ENDED_TWICE = re.compile(r"([.!?。！？])”[.。]")
WAITING = "waiting-ranks"
"""Said of all that complain."""
_MESH = "mesh-start"
"""Said of ranks that never came together: who says so tells nothing of who is missing."""


def answer(
    name: str,
    values: Mapping[str, str],
    read: Logs,
    known: Cause | None = None,
    also: Sequence[str] = (),
    particular: str | None = None,
    details: Sequence[Detail] = (),
    *,
    is_unsure: bool = False,
) -> Verdict:
    """What is told of a cause; `is_unsure` where its message is only read literally."""
    told = {
        one: _words_of(one, particular) if particular else texts(one)[name] for one in LANGUAGES
    }
    if particular is None and name in _UNEXPLAINED and "advice" in also:
        # Where a message says what to do, that nothing is known of it would be no help.
        told = {one: {**told[one], "remedy": texts(one)["also"]["advised"]} for one in LANGUAGES}
    if is_unsure:
        told = {one: _literally(one, told[one]) for one in LANGUAGES}
    return Verdict(
        cause=None if known is None else known.name,
        whose=UNKNOWN if known is None or is_unsure else known.whose,
        kind=UNSURE if is_unsure else _kind(known),
        what={one: _what(one, told[one]["what"], values, details) for one in LANGUAGES},
        remedy={one: _remedy(one, told[one]["remedy"], values, also, details) for one in LANGUAGES},
        files=read.files,
        bytes=read.bytes,
    )


def _words_of(language: str, particular: str) -> Mapping[str, str]:
    tables = words(language), words_of_waits(language), words_of_reasons(language)
    return next(table[particular] for table in tables if particular in table)


def _literally(language: str, told: Mapping[str, str]) -> Mapping[str, str]:
    """Words for a message that is not known, with that said before them."""
    known = texts(language)["also"]
    return {name: f"{known[f'literal-{name}']}{_SPACE[language]}{told[name]}" for name in told}


def _kind(known: Cause | None) -> str:
    if known is None:
        return NOTHING
    return CONSEQUENCE if is_consequence(known) else FAULT


def _what(language: str, general: str, values: Mapping[str, str], details: Sequence[Detail]) -> str:
    """What is wrong, and who it was."""
    first, more = general.format_map(values), _sentences(language, WHAT, details)
    # What ends with a quotation of the log may lack its stop.
    stop = "" if not more or first.rstrip("”").endswith(_STOPS) else _STOPS[language == "zh"]
    return _ended_once(_SPACE[language].join([f"{first}{stop}", *more]))


def _remedy(
    language: str,
    general: str,
    values: Mapping[str, str],
    also: Sequence[str],
    details: Sequence[Detail],
) -> str:
    """What to do about a cause in general, and what its own message and place say."""
    known = texts(language)["also"]
    told = {sentence: known[sentence].format_map(values) for sentence in also}
    first = [told.pop("advice")] if "advice" in told else _sentences(language, FIRST, details)
    besides = _sentences(language, REMEDY, details)
    sentences = [*first, general.format_map(values), *besides, *told.values()]
    return _ended_once(_SPACE[language].join(sentences))


def _ended_once(text: str) -> str:
    """Without the full stop behind a quotation that ends with its own."""
    return _ENDED_TWICE.sub(r"\1”", text)


def _sentences(language: str, to: str, details: Sequence[Detail]) -> list[str]:
    return [_sentence(language, one).format_map(one.values) for one in details if one.to == to]


def _sentence(language: str, one: Detail) -> str:
    known = texts(language)["also"]
    if one.sentence in known:
        return known[one.sentence]
    # What the script shows has words for both.
    return words(language)[one.sentence]["what" if one.to == WHAT else "remedy"]


def details_around(chosen: Sign, same: Sequence[Sign]) -> list[Detail]:
    """What is said around the line besides, and around others that tell of the same."""
    cause = chosen.event.cause
    if chosen.event.is_settled:
        return []
    own = [
        *_own_words(chosen.event),
        *told_by_report(chosen.event),
        *beside(chosen.event, around(chosen)),
    ]
    if not has_details(cause):
        return own
    text = "\n".join(around(sign) for sign in (chosen, *same[: MOST_SAME - 1]))
    found = [*own, *details_of(cause, text)]
    waiting = sorted({sign.rank for sign in (chosen, *same) if sign.rank is not None})
    is_start = any(one.sentence == _MESH for one in found)
    if cause.level is Level.LOST_PEER and len(waiting) > 1 and not is_start:
        ranks = ", ".join(map(str, waiting[:_MOST_RANKS]))
        found.append(Detail(WHAT, WAITING, {"ranks": ranks}))
    return found


def _own_words(event: Event) -> list[Detail]:
    """The exception's own message and the script's own line, where nothing more particular is told."""
    line, error = event.values.get("own"), event.values.get("error", "")
    handled = event.values.get("handled")
    if handled and (event.is_unsure or event.cause.name in _AUTHORS_SAY):
        return [Detail(WHAT, "while-handling", {"handled": handled})]
    is_read = event.particular is not None and not event.is_stated
    if line is None or is_read or event.cause.whose != "script":
        return []
    is_told = (
        event.is_stated or has_report(event) or "{error}" in texts("en")[event.cause.name]["what"]
    )
    said = [] if is_told else [Detail(WHAT, "own-message", {"error": error})]
    if line in error:
        return said
    part = event.values.get("part")
    marked = [Detail(WHAT, "own-part", {"part": part})] if part else []
    return [*said, Detail(WHAT, "own-line", {"line": line}), *marked]


def evidence_of(signs: Iterable[Sign]) -> tuple[Evidence, ...]:
    return tuple(_shown(sign) for sign in signs)


def _shown(sign: Sign) -> Evidence:
    with opened(sign.source) as fd:
        number = 1 if fd is None else line_number(fd, sign.event.line.offset)
    return Evidence(
        file=sign.source.name,
        line=number,
        text=sign.event.line.text.strip()[:_SHOWN],
        cause=sign.event.cause.name,
        rank=sign.rank,
        at=sign.event.line.at,
    )
