"""Which of all signs was the first fault."""

import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from jumar.errors import JumarError
from jumar.spec.verdicts import CONSEQUENCE, FAULT, NOTHING, UNKNOWN, Evidence, Verdict
from jumar.why.details import REMEDY, WHAT, Detail, details_of, has_details, is_consequence
from jumar.why.event import Event
from jumar.why.events import events_of
from jumar.why.knowledge import (
    ERROR_LINE,
    EXTENSION_BUILD,
    LANGUAGES,
    LIBRARY_ERROR,
    PEER_LATE,
    PYTHON_ERROR,
    Cause,
    Level,
    by_platform,
    texts,
)
from jumar.why.line import last_resort, read_closer
from jumar.why.naming import name_what_it_is_about
from jumar.why.particulars import words
from jumar.why.reading import lines_of
from jumar.why.reasons import words as words_of_reasons
from jumar.why.scan import line_number, regions

_UNEXPLAINED = frozenset((LIBRARY_ERROR, PYTHON_ERROR))
_STRAY = 4
"""So many NULs may stand in a log below its first line."""
_SURVIVED = 64 * 1024
"""Bytes of a log without a fault after one: whoever wrote them went on."""
_TAIL = 16 * 1024
"""How much of a log's end is read for forms where nothing else is known."""
_SHOWN, _SAME, _FOLLOWED = 300, 3, 5
_SPACE = {"en": " ", "zh": ""}
"""What stands between two sentences."""
_MOST_HINTS = 100
_RIGHT_BELOW = 3
"""Bytes between a line and the next."""
# What a compiler or linker says of a fault, in its own form: `x.cu(12): error: …`.
_COMPILER_SAYS = re.compile(
    r"[:)] (?:fatal )?error(?: [A-Z]+\d+)?: |\bnvcc fatal\b|#error |\bundefined reference to\b|\bld(?:\.\w+)?: cannot find"
    r"|\b(?:nvcc|gcc|g\+\+|cc1plus|c\+\+): (?:command )?not found"
)
# pip says so of a package's setup, and shows below it, further right, what that raised.
_SETUP_FAILED = re.compile(
    r"subprocess-exited-with-error|metadata-generation-failed|did not run successfully"
)
_BELOW = 4096
"""How far below a build's first complaint its compiler may still speak."""
_MOST_RANKS = 16
_BEFORE, _AFTER = 6 * 1024, 6 * 1024
"""How much is read around the line that was chosen for what else is said there."""
_LAST_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (\d+)")


@dataclass(frozen=True, slots=True)
class Source:
    """A log: what to call it, how to open it, and whose it is where that is known."""

    name: str
    open: Callable[[], int]
    """A descriptor, which is closed after use; OSError."""
    rank: int | None = None
    is_accused: bool = False
    """The platform saw this rank fail first."""


@dataclass(slots=True)
class _Sign:
    """An event and the log that it is in."""

    event: Event
    source: Source
    ended_at: float
    is_survived: bool

    @property
    def rank(self) -> int | None:
        return self.source.rank if self.event.line.rank is None else self.event.line.rank


@dataclass(slots=True)
class _Read:
    signs: list[_Sign]
    files: int = 0
    bytes: int = 0


def judge(sources: Iterable[Source], *, platform: str | None = None) -> Verdict:
    """The first fault that these logs tell of; `platform` is the cause that the platform saw."""
    read = _Read([])
    logs = list(sources)
    for source in logs:
        _read(source, read)
    seen = by_platform().get(platform or "")
    if seen is not None:
        return _seen(seen, read)
    chosen = _first(read.signs) or _last_resort(logs)
    if chosen is None:
        return _answer("nothing", {}, read)
    chosen = _compilers_word(chosen, read.signs)
    name_what_it_is_about(chosen.event)
    return _told(chosen, [sign for sign in read.signs if sign is not chosen], logs, read)


def unread(files: int) -> Verdict:
    """The answer where the logs take too long to read."""
    return _answer("unread", {}, _Read([], files))


def _seen(cause: Cause, read: _Read) -> Verdict:
    """What the platform saw itself, with what the logs say of the same."""
    same = [sign for sign in read.signs if sign.event.cause is cause and not sign.is_survived]
    place = next(
        (sign.event.values["place"] for sign in same if "place" in sign.event.values), None
    )
    return replace(
        _answer(cause.name, {}, read, cause), evidence=_evidence(same[:_SAME]), place=place
    )


def _answer(
    name: str,
    values: Mapping[str, str],
    read: _Read,
    known: Cause | None = None,
    also: Sequence[str] = (),
    particular: str | None = None,
    details: Sequence[Detail] = (),
) -> Verdict:
    told = {
        one: _words_of(one, particular) if particular else texts(one)[name] for one in LANGUAGES
    }
    if particular is None and name in _UNEXPLAINED and "advice" in also:
        # Where a message says what to do, that nothing is known of it would be no help.
        told = {one: {**told[one], "remedy": texts(one)["also"]["advised"]} for one in LANGUAGES}
    return Verdict(
        cause=None if known is None else known.name,
        whose=UNKNOWN if known is None else known.whose,
        kind=_kind(known),
        what={one: _what(one, told[one]["what"], values, details) for one in LANGUAGES},
        remedy={one: _remedy(one, told[one]["remedy"], values, also, details) for one in LANGUAGES},
        files=read.files,
        bytes=read.bytes,
    )


def _words_of(language: str, particular: str) -> Mapping[str, str]:
    known = words(language).get(particular)
    return words_of_reasons(language)[particular] if known is None else known


def _kind(known: Cause | None) -> str:
    if known is None:
        return NOTHING
    return CONSEQUENCE if is_consequence(known) else FAULT


def _what(language: str, general: str, values: Mapping[str, str], details: Sequence[Detail]) -> str:
    """What is wrong, and who it was."""
    return _SPACE[language].join([general.format_map(values), *_sentences(language, WHAT, details)])


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
    first = [told.pop("advice")] if "advice" in told else []
    besides = _sentences(language, REMEDY, details)
    return _SPACE[language].join([*first, general.format_map(values), *besides, *told.values()])


def _sentences(language: str, to: str, details: Sequence[Detail]) -> list[str]:
    known = texts(language)["also"]
    return [known[one.sentence].format_map(one.values) for one in details if one.to == to]


@contextmanager
def _opened(source: Source) -> Generator[int | None]:
    """Its descriptor; None where it is gone by now: logs are moved and removed while they are read."""
    try:
        fd = source.open()
    except (OSError, JumarError):
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _read(source: Source, read: _Read) -> None:
    with _opened(source) as fd:
        if fd is None:
            return
        status = os.fstat(fd)
        read.files += 1
        read.bytes += status.st_size
        if _is_binary(os.pread(fd, 4096, 0)):
            return
        year = _year(status.st_mtime)
        found = [
            event
            for region in regions(fd, status.st_size)
            for event in events_of(lines_of(region.start, region.text, year))
        ]
    survived = _last_gap(found, status.st_size)
    read.signs.extend(
        _Sign(event, source, status.st_mtime, index < survived) for index, event in enumerate(found)
    )


def _year(at: float) -> int:
    """The year of a time; whoever owns a file gives it any."""
    try:
        return time.gmtime(at).tm_year
    except (OverflowError, OSError, ValueError):
        return time.gmtime().tm_year


def _is_binary(head: bytes) -> bool:
    """Whether these are no words: torch itself writes a stray NUL when a data loader's worker crashes."""
    return b"\0" in head.partition(b"\n")[0] or head.count(b"\0") > _STRAY


def _last_gap(found: Sequence[Event], size: int) -> int:
    """How many of these events were survived: much that is no fault was written after them."""
    ends = [event.line.offset for event in found[1:]] + [size]
    for index in range(len(found) - 1, -1, -1):
        if ends[index] - found[index].end > _SURVIVED:
            return index + 1
    return 0


def _first(signs: Sequence[_Sign]) -> _Sign | None:
    """What explains most; of those, what came first."""
    told = [sign for sign in signs if sign.event.level is not Level.WARNING]
    living = [sign for sign in told if not sign.is_survived] or told
    if not living:
        return None
    level = min(sign.event.level for sign in living)
    best = [sign for sign in living if sign.event.level is level]
    if level is Level.HINT:
        best = _telling(best)
    if level is Level.WRAPPER:
        best = _said_before(best, living) or best
    if level is Level.LOST_PEER and any(sign.event.at is None for sign in best):
        # Whoever waits too long leaves, and is then what the others lost.
        best = [sign for sign in best if sign.event.cause.name == PEER_LATE] or best
    # Times of different logs are compared only where all have them.
    firsts = list({id(sign.source): sign for sign in reversed(best)}.values())
    if any(sign.source.is_accused for sign in firsts):
        firsts = [sign for sign in firsts if sign.source.is_accused]
    if all(sign.event.at is not None for sign in best):
        return min(best, key=lambda sign: (not sign.source.is_accused, sign.event.at))
    return min(firsts, key=lambda sign: sign.ended_at)


def _compilers_word(chosen: _Sign, signs: Sequence[_Sign]) -> _Sign:
    """Of a build that failed, what the compiler said first: who called it says only that it failed."""
    if chosen.event.cause.name != EXTENSION_BUILD:
        return chosen
    said = (
        sign
        for sign in signs
        if sign.source is chosen.source
        and sign.event.line.offset < chosen.event.end + _BELOW
        and (_COMPILER_SAYS.search(sign.event.line.text) or _is_of_setup(sign, chosen))
    )
    first = next(said, chosen)
    if first.event.cause.name == ERROR_LINE:
        first.event.cause, first.event.is_hint = chosen.event.cause, False
    return first


def _is_of_setup(sign: _Sign, pip: _Sign) -> bool:
    """Whether a sign is the exception of a package's setup that pip shows below its own words."""
    event = sign.event
    return (
        _SETUP_FAILED.search(pip.event.line.text) is not None
        and event.line.offset > pip.event.line.offset
        and event.line.text[:1].isspace()
        and not event.is_line
        and not event.is_hint
    )


def _last_resort(logs: Sequence[Source]) -> _Sign | None:
    """Where nothing is known as a fault: what has the form of one, near the end of a log."""
    for source in logs:
        with _opened(source) as fd:
            if fd is None:
                continue
            status = os.fstat(fd)
            start = max(status.st_size - _TAIL, 0)
            text = os.pread(fd, _TAIL, start)
        cut = text.find(b"\n") + 1 if start else 0
        lines = lines_of(start + cut, text[cut:], _year(status.st_mtime))
        event = None if b"\0" in text else last_resort(lines)
        if event is not None:
            return _Sign(event, source, status.st_mtime, is_survived=False)
    return None


def _said_before(wrappers: list[_Sign], living: list[_Sign]) -> list[_Sign]:
    """The line right above one that says only that a child failed, if it says why."""
    found: list[_Sign] = []
    for hint in [sign for sign in living if sign.event.level is Level.HINT][-_MOST_HINTS:]:
        after = hint.event.end
        if any(
            sign.source is hint.source and 0 <= sign.event.line.offset - after <= _RIGHT_BELOW
            for sign in wrappers
        ):
            found.append(hint)
    return [sign for sign in _telling(found) if sign.event.cause.name != ERROR_LINE]


def _telling(hints: list[_Sign]) -> list[_Sign]:
    """Of lines that call themselves errors, those that say what is wrong; all of them if none does."""
    for sign in (*hints[:_MOST_HINTS], *hints[-_MOST_HINTS:]):
        read_closer(sign.event)
    return [sign for sign in hints if sign.event.cause.name != ERROR_LINE] or hints


def _told(chosen: _Sign, others: list[_Sign], logs: Sequence[Source], read: _Read) -> Verdict:
    event = chosen.event
    rank, name, values = chosen.rank, event.cause.name, event.values
    if event.level is Level.LOST_PEER:
        silent = _silent(chosen, others, logs)
        if silent is not None:
            rank, name, values = silent, "peer-silent", {"rank": str(silent)}
    same = [sign for sign in others if sign.event.cause is event.cause and not sign.is_survived]
    details = _details(chosen, same)
    return replace(
        _answer(name, values, read, event.cause, event.also, event.particular, details),
        evidence=_evidence([chosen, *same[: _SAME - 1]]),
        followed=_evidence(_different(event, others)),
        rank=rank,
        place=values.get("place"),
    )


def _details(chosen: _Sign, same: Sequence[_Sign]) -> list[Detail]:
    """What is said around the line besides, and around others that tell of the same."""
    cause = chosen.event.cause
    own = _own_words(chosen.event)
    if not has_details(cause):
        return own
    text = "\n".join(_around(sign) for sign in (chosen, *same[: _SAME - 1]))
    found = [*own, *details_of(cause, text)]
    waiting = sorted({sign.rank for sign in (chosen, *same) if sign.rank is not None})
    if cause.level is Level.LOST_PEER and len(waiting) > 1:
        ranks = ", ".join(map(str, waiting[:_MOST_RANKS]))
        found.append(Detail(WHAT, "waiting-ranks", {"ranks": ranks}))
    return found


def _own_words(event: Event) -> list[Detail]:
    """The exception's own message and the script's own line, where nothing more particular is told."""
    line, error = event.values.get("own"), event.values.get("error", "")
    is_read = event.particular is not None and not event.is_stated
    if line is None or is_read or event.cause.whose != "script":
        return []
    is_told = event.is_stated or "{error}" in texts("en")[event.cause.name]["what"]
    said = [] if is_told else [Detail(WHAT, "own-message", {"error": error})]
    return said if line in error else [*said, Detail(WHAT, "own-line", {"line": line})]


def _around(sign: _Sign) -> str:
    """The lines around a sign, without what stands before each."""
    with _opened(sign.source) as fd:
        start = max(sign.event.line.offset - _BEFORE, 0)
        length = sign.event.line.offset - start + _AFTER
        text = b"" if fd is None else os.pread(fd, length, start)
    return "\n".join(line.text for line in lines_of(start, text, 0))


def _silent(chosen: _Sign, others: Sequence[_Sign], logs: Sequence[Source]) -> int | None:
    """The rank that the others wait for, if only one can be: the one that says nothing of a lost
    peer, or the one that enqueued the least."""
    signs = [sign for sign in (chosen, *others) if sign.event.level is Level.LOST_PEER]
    complaining = {sign.rank for sign in signs}
    ranks = {source.rank for source in logs if source.rank is not None}
    quiet = ranks - complaining
    if len(ranks) > 2 and len(quiet) == 1:
        return quiet.pop()
    enqueued: dict[int, int] = {}
    for sign in signs:
        found = _LAST_ENQUEUED.search(sign.event.line.text)
        if found is not None and sign.rank is not None:
            enqueued[sign.rank] = int(found[1])
    least = [rank for rank, number in enqueued.items() if number == min(enqueued.values())]
    return least[0] if len(least) == 1 < len(enqueued) else None


def _different(event: Event, others: Sequence[_Sign]) -> list[_Sign]:
    """The first sign of each other cause, without warnings."""
    found: dict[str, _Sign] = {}
    for sign in others:
        cause = sign.event.cause
        if (
            cause is not event.cause
            and sign.event.level is not Level.WARNING
            and not sign.is_survived
        ):
            found.setdefault(cause.name, sign)
    return list(found.values())[:_FOLLOWED]


def _evidence(signs: Iterable[_Sign]) -> tuple[Evidence, ...]:
    return tuple(_shown(sign) for sign in signs)


def _shown(sign: _Sign) -> Evidence:
    with _opened(sign.source) as fd:
        number = 1 if fd is None else line_number(fd, sign.event.line.offset)
    return Evidence(
        file=sign.source.name,
        line=number,
        text=sign.event.line.text.strip()[:_SHOWN],
        cause=sign.event.cause.name,
        rank=sign.rank,
        at=sign.event.line.at,
    )
