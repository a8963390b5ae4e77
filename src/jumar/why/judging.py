"""Which of all signs was the first fault."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from jumar.spec.verdicts import Verdict
from jumar.why import peers
from jumar.why.above import begun_by, said_above
from jumar.why.answer import MOST_SAME, WAITING, answer, details_around, evidence_of
from jumar.why.crashed import name_where_it_crashed
from jumar.why.details import FIRST, WHAT, Detail
from jumar.why.diverged import diverged
from jumar.why.dumps import stalled
from jumar.why.event import Event
from jumar.why.filled import name_how_it_filled, name_who_shares_the_card
from jumar.why.inner import said_better
from jumar.why.knowledge import (
    ERROR_LINE,
    PEER_LATE,
    PYTHON_ERROR,
    Cause,
    Level,
    by_platform,
    causes,
)
from jumar.why.line import last_resort, only_announces, read_closer
from jumar.why.naming import (
    name_by_what_is_below,
    name_what_it_is_about,
)
from jumar.why.reading import Line
from jumar.why.reports import name_by_report
from jumar.why.script.code import Code
from jumar.why.script.telling import Shown, show_in_script, shown_alone
from jumar.why.settling import settle
from jumar.why.signs import (
    Logs,
    Sign,
    Source,
    below,
    far_around,
    far_lines,
    last_lines,
    read_log,
)
from jumar.why.silent import end_of, silent_end
from jumar.why.symbols import LONGEST_ERROR, cut
from jumar.why.waited import Waited
from jumar.why.waiting import waited

_FOLLOWED, _MOST_ENDS = 5, 16
# Whatever is launched or waited for next reports these.
_SAID_ANYWHERE = frozenset(("gpu-address", "gpu-assert", "gpu-kernel-image"))
_MOST_HINTS = 100
_ASKED_BEFORE = "asked-before"
_RIGHT_BELOW = 3
"""Bytes between a line and the next."""
_FRAME = re.compile(r'  File "([^"]+)", line (\d+)')
_FRAME_LINES = 8
"""A frame, its source and the marks below that."""
_ANY_NAME = re.compile(r"(?:[A-Za-z_]\w*\.){0,8}[A-Za-z_]\w{0,60}(?:: .*)?")


def judge(
    sources: Iterable[Source], *, platform: str | None = None, code: Code | None = None
) -> Verdict:
    """The first fault that these logs tell of; `platform` is the cause that the platform saw, `code` is the training's."""
    read = Logs([])
    logs = list(sources)
    for source in logs:
        read_log(source, read)
    seen = by_platform().get(platform or "")
    if seen is not None:
        return _seen(seen, logs, read, code)
    chosen = _first(read.signs) or _last_resort(logs)
    if chosen is None:
        return _nothing(logs, read, code)
    chosen = begun_by(said_better(chosen, read.signs))
    name_what_it_is_about(chosen.event)
    name_by_what_is_below(chosen.event, "\n".join(line.text for line in below(chosen)))
    name_by_report(chosen)
    settle(chosen.event, partial(far_around, chosen))
    name_how_it_filled(chosen.event, partial(far_lines, chosen))
    others = [sign for sign in read.signs if sign is not chosen]
    name_by_another_rank(chosen, others)
    name_who_shares_the_card(chosen, others)
    name_where_it_crashed(chosen, others)
    stacks = [chosen.event.stack, *(sign.event.stack for sign in others)]
    shown = show_in_script(chosen.event, code, far_around(chosen), stacks)
    return _told(chosen, others, logs, read, shown)


def name_by_another_rank(chosen: Sign, others: Sequence[Sign]) -> None:
    """Of a fault of a card whose message says nothing of where, what another rank's stack tells of the same."""
    event = chosen.event
    if event.particular is not None or event.cause.name not in _SAID_ANYWHERE:
        return
    for sign in others:
        other = sign.event
        if other.cause is event.cause and other.particular is not None and not sign.is_survived:
            event.particular, event.values = other.particular, {**event.values, **other.values}
            return


def unread(files: int) -> Verdict:
    """The answer where the logs take too long to read."""
    return answer("unread", {}, Logs([], files))


def _nothing(logs: Sequence[Source], read: Logs, code: Code | None) -> Verdict:
    """Where no log tells of a fault."""
    alone = _by_script_alone("nothing", logs, read, code)
    return alone or answer("nothing", {}, read, details=silent_end(logs))


def _by_script_alone(
    name: str, logs: Sequence[Source], read: Logs, code: Code | None
) -> Verdict | None:
    """What the script shows of an end of which no log says why."""
    if code is None:
        return None
    # What was written last comes last.
    read_ends = sorted(map(last_lines, logs[:_MOST_ENDS]), key=lambda end: end[0])
    ends = [line.text for _, lines in read_ends for line in lines]
    alone = shown_alone(name, code, "\n".join(ends))
    if alone is None:
        return None
    cause, found, evidence = alone
    told = answer(cause.name, found.values, read, cause, particular=found.name)
    return replace(told, evidence=evidence)


def _seen(cause: Cause, logs: Sequence[Source], read: Logs, code: Code | None) -> Verdict:
    """What the platform saw itself, with what the logs say of the same, and the script."""
    same = [sign for sign in read.signs if sign.event.cause is cause and not sign.is_survived]
    place = next(
        (sign.event.values["place"] for sign in same if "place" in sign.event.values), None
    )
    told = _by_script_alone(cause.name, logs, read, code) or answer(cause.name, {}, read, cause)
    return replace(told, evidence=(*evidence_of(same[:MOST_SAME]), *told.evidence), place=place)


def _first(signs: Sequence[Sign]) -> Sign | None:
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
    if level is Level.LOST_PEER and (asked := peers.asked_before(best, living)) is not None:
        asked.event.values["effect"] = best[0].event.values.get("error", "")
        asked.event.also = (*asked.event.also, _ASKED_BEFORE)
        return asked
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


def _last_resort(logs: Sequence[Source]) -> Sign | None:
    """Where nothing is known as a fault: what has the form of one, near the end of a log."""
    for source in logs:
        written_at, lines = last_lines(source)
        event = _raised_by_name(lines) or stalled(lines) or last_resort(lines)
        if event is not None:
            return Sign(event, source, written_at, is_survived=False)
    return None


def _raised_by_name(lines: Sequence[Line]) -> Event | None:
    """What a traceback ends with, where its class has no name that classes mostly have: `E`, `OOM`."""
    for index in range(len(lines) - 1, 0, -1):
        text = lines[index].text
        place = _place_above(lines, index) if _ANY_NAME.fullmatch(text) else None
        if place is not None:
            said = {"error": cut(text.strip(), LONGEST_ERROR), "place": place}
            return Event(causes()[PYTHON_ERROR], lines[index], lines[index].at, said)
    return None


def _place_above(lines: Sequence[Line], index: int) -> str | None:
    """Where the frame right above a line is; None where there is none."""
    for line in reversed(lines[max(index - _FRAME_LINES, 0) : index]):
        frame = _FRAME.match(line.text)
        if frame is not None:
            return f"{frame[1]}:{frame[2]}"
        if not line.text.startswith("    "):
            return None
    return None


def _said_before(wrappers: list[Sign], living: list[Sign]) -> list[Sign]:
    """The line right above one that says only that a child failed, if it says why."""
    hints = [sign for sign in living if sign.event.level is Level.HINT][-_MOST_HINTS:]
    found = [hint for hint in hints if any(_is_right_above(hint, sign) for sign in wrappers)]
    return [sign for sign in _telling(found) if sign.event.cause.name != ERROR_LINE]


def _is_right_above(sign: Sign, other: Sign) -> bool:
    gap = other.event.line.offset - sign.event.end
    return sign.source is other.source and 0 <= gap <= _RIGHT_BELOW


def _right_above(chosen: Sign, others: Sequence[Sign]) -> list[Detail]:
    """What calls itself an error right above a launcher's word, where nothing is known of it."""
    if chosen.event.level is not Level.WRAPPER:
        return []
    said = (
        sign.event.values.get("error", "")
        for sign in others
        if sign.event.level is Level.HINT and _is_right_above(sign, chosen)
    )
    return [Detail(WHAT, "said-above", {"said": one}) for one in said if one][:1]


def _telling(hints: list[Sign]) -> list[Sign]:
    """Of lines that call themselves errors, those that say what is wrong; all of them if none does."""
    for sign in (*hints[:_MOST_HINTS], *hints[-_MOST_HINTS:]):
        read_closer(sign.event)
    known = [sign for sign in hints if sign.event.cause.name != ERROR_LINE]
    return known or [sign for sign in hints if not only_announces(sign.event)] or hints


def _told(
    chosen: Sign, others: list[Sign], logs: Sequence[Source], read: Logs, script: Shown
) -> Verdict:
    event = chosen.event
    earlier = diverged(chosen)
    rank, name, cause = chosen.rank, event.cause.name, event.cause
    values, also, particular = event.values, event.also, event.particular
    late = None
    if event.level is Level.LOST_PEER:
        shown = waited(chosen, others, logs)
        if shown is not None:
            return _told_together(shown, chosen, others, read)
        ended = peers.finished(chosen, others, logs)
        silent = peers.silent(chosen, others, logs) if ended is None else None
        if ended is not None:
            rank, name, cause = ended[0], "peer-finished", causes()["peer-finished"]
            values, also, particular = {"rank": str(rank), "said": ended[1]}, (), None
        elif silent is not None:
            rank, name, values = silent, "peer-silent", {"rank": str(silent)}
            particular = None
        late = silent if ended is None else None
        late = peers.awaited(chosen, others) if late is None and ended is None else late
    same = [sign for sign in others if sign.event.cause is event.cause and not sign.is_survived]
    # Who failed around an agent that was told to end did so for that.
    details = [] if _ASKED_BEFORE in also else details_around(chosen, same)
    if late is not None:
        # Who it is needs no list of the others.
        details = [one for one in details if one.sentence != WAITING]
        details += _of_late(late, chosen, others, logs)
        rank = late
        if "to" not in values:
            values = {**values, "peer": str(late)}
    elif event.level is Level.LOST_PEER:
        details = [*_of_operations(chosen, others), *details]
    details = [*script.details, *details, *earlier]
    details += [*_right_above(chosen, others), *said_above(chosen)]
    return replace(
        answer(
            *(name, values, read, cause, also, particular, details),
            is_unsure=event.is_unsure,
        ),
        evidence=(*evidence_of([chosen, *same[: MOST_SAME - 1]]), *script.evidence),
        followed=evidence_of(_different(event, others)),
        rank=rank,
        place=values.get("place"),
    )


def _of_operations(chosen: Sign, others: Sequence[Sign]) -> list[Detail]:
    """That ranks that wait for each other are in different operations."""
    waits = peers.operations(chosen, others)
    if not waits:
        return []
    told = ", ".join(f"{rank}: {op}" for rank, op in sorted(waits.items())[:_FOLLOWED])
    return [Detail(WHAT, "ops-differ", {"ops": told}), Detail(FIRST, "ops-order", {})]


def _of_late(
    late: int, chosen: Sign, others: Sequence[Sign], logs: Sequence[Source]
) -> list[Detail]:
    """That others wait in turn for a rank, and how the log of that one ends, if it tells of no fault."""
    values = chosen.event.values
    peer = values.get("peer", str(late))
    found: list[Detail] = []
    if peer != str(late):
        found.append(Detail(WHAT, "waits-in-turn", {"peer": peer, "late": str(late)}))
    heard = {id(sign.source) for sign in (chosen, *others)}
    own = (source for source in logs if source.rank == late and id(source) not in heard)
    end = next(filter(None, map(end_of, own)), None)
    return [
        *found,
        *([] if end is None else [Detail(WHAT, "late-ends", {"late": str(late), "last": end[1]})]),
    ]


def _told_together(shown: Waited, chosen: Sign, others: list[Sign], read: Logs) -> Verdict:
    """What the logs of ranks show together."""
    known = causes()[shown.cause]
    signs = [chosen, *(sign for sign in others if sign.event.level is Level.LOST_PEER)]
    by_rank = {sign.rank: sign for sign in reversed(signs)}
    told = sorted(by_rank.values(), key=lambda sign: sign.rank not in (shown.rank, chosen.rank))
    return replace(
        answer(shown.form, shown.values, read, known, (), shown.form, shown.details),
        evidence=evidence_of(told[:MOST_SAME]),
        followed=evidence_of(
            sign for sign in _different(chosen.event, others) if sign not in told[:MOST_SAME]
        ),
        rank=shown.rank,
        place=shown.place,
    )


def _different(event: Event, others: Sequence[Sign]) -> list[Sign]:
    """The first sign of each other cause, without warnings."""
    found: dict[str, Sign] = {}
    for sign in others:
        cause = sign.event.cause
        if (
            cause is not event.cause
            and sign.event.level is not Level.WARNING
            and not sign.is_survived
        ):
            found.setdefault(cause.name, sign)
    return list(found.values())[:_FOLLOWED]
