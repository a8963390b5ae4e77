"""Where a rank only says that its peer is gone: which one that was, by what the other logs say and what they do not."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from jumar.why.knowledge import Level
from jumar.why.reading import Line, lines_of
from jumar.why.signs import Sign, Source, before, below, opened, year_of

_LAST_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (\d+)")
# The launcher's own agent, which somebody outside told to end: it tells its workers afterwards.
_AGENT_ASKED = re.compile(r"\bReceived \w+ death signal\b|\bgot signal: (?:15|2|1)\b")
# `rank 1 done`, `[rank 1] training finished`.
_DONE = re.compile(
    r"(?i)^\W{0,3}(?:\[?rank[ :=#]{0,2}(?P<rank>\d{1,5})\b\W{0,3})?(?:is |has |all |training |train |finished )*"
    r"(?:done|finished|complete[d]?|finished training|done training|exiting|bye)\W*$"
)
_TAIL = 2048
# How HCCL names the rank that it waits for.
_PEER = re.compile(
    r"\bremote rank ?:? ?\[(\d{1,6})\]|dst_rank\[\d{1,6}\]-remoteUserrank\[(\d{1,6})\]"
)
_OPERATION = re.compile(
    r"\btag ?\[(?:Hccl)?((?:All|Reduce|Broad|Gather|Scatter|Send|Recv|Batch)[A-Za-z]{2,24})"
)
_NEXT_WRITER = re.compile(r"Traceback \(most recent")
_MOST_WAITING, _REPORT_LINES = 64, 40


def silent(chosen: Sign, others: Sequence[Sign], logs: Sequence[Source]) -> int | None:
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


def awaited(chosen: Sign, others: Sequence[Sign]) -> int | None:
    """The rank that the chosen one waits for, or the one that this waits for in turn, as far as ranks name each other: the first
    that names none. None where they wait for each other in a ring, or name nobody."""
    waits = [sign for sign in (chosen, *others) if sign.event.level is Level.LOST_PEER]
    named: dict[int, int] = {}
    for sign in waits[:_MOST_WAITING]:
        peer = _named_by(sign)
        if peer is not None and sign.rank is not None:
            named.setdefault(sign.rank, peer)
    # Who writes no number of its own still names another.
    at = _named_by(chosen) if chosen.rank is None else chosen.rank
    seen: set[int] = set()
    while at in named and at not in seen:
        seen.add(at)
        at = named[at]
    complaining = {sign.rank for sign in waits}
    return None if at is None or at in complaining else at


def operations(chosen: Sign, others: Sequence[Sign]) -> Mapping[int, str]:
    """In which operation each of two ranks waits that wait for each other in different ones; else nothing.

    Of others that is no fault: the stages of a pipeline do different things."""
    waits = [sign for sign in (chosen, *others) if sign.event.level is Level.LOST_PEER]
    found: dict[int, tuple[int | None, str]] = {}
    for sign in waits[:_MOST_WAITING]:
        op = _found_in(sign, _OPERATION)
        if op is not None and sign.rank is not None:
            found.setdefault(sign.rank, (_named_by(sign), op))
    for rank, (peer, op) in found.items():
        other = found.get(rank if peer is None else peer)
        if other is not None and other[0] == rank and other[1] != op and peer is not None:
            return {rank: op, peer: other[1]}
    return {}


def _named_by(sign: Sign) -> int | None:
    """The rank that a sign's own report says it waits for."""
    found = _found_in(sign, _PEER)
    return None if found is None else int(found)


def _found_in(sign: Sign, pattern: re.Pattern[str]) -> str | None:
    """The first part that a pattern names in a sign's own report."""
    for line in below(sign)[:_REPORT_LINES]:
        if line.offset > sign.event.line.offset and _NEXT_WRITER.match(line.text):
            break
        found = pattern.search(line.text) if line.writer in (sign.event.line.writer, "") else None
        if found is not None:
            return next(part for part in found.groups() if part)
    return None


def finished(
    chosen: Sign, others: Sequence[Sign], logs: Sequence[Source]
) -> tuple[int, str] | None:
    """A rank that had said that it was done when another one lost it, and its words."""
    complaining = {sign.rank for sign in (chosen, *others)}
    for rank, line in (*_done_above(chosen), *_done_at_end(chosen, logs)):
        if rank is not None and rank not in complaining:
            return rank, line.text.strip()
    return None


def asked_before(lost: Sequence[Sign], signs: Sequence[Sign]) -> Sign | None:
    """The launcher's agent that was told to end before any rank lost a peer, as far as times tell."""
    asked = [
        sign
        for sign in signs
        if sign.event.level is Level.ASKED
        and sign.event.at is not None
        and _AGENT_ASKED.search(sign.event.line.text)
    ]
    first = min(asked, key=lambda sign: sign.event.at or 0.0, default=None)
    known_at = [_known_at(sign) for sign in lost]
    if first is None or first.event.at is None:
        return None
    is_first = all(at is not None and first.event.at <= at for at in known_at)
    return first if is_first else None


def _known_at(sign: Sign) -> float | None:
    """When a sign was there at the latest: its own time, or that of the next line that has one."""
    if sign.event.line.at is not None:
        return sign.event.line.at
    return next((line.at for line in below(sign) if line.at is not None), None)


def _done_above(chosen: Sign) -> Iterator[tuple[int | None, Line]]:
    """What ranks that write into the same log say above it, the last first."""
    for line in reversed(before(chosen)):
        found = _DONE.match(line.text)
        if found is not None:
            yield int(found["rank"]) if found["rank"] else line.rank, line


def _done_at_end(chosen: Sign, logs: Sequence[Source]) -> Iterator[tuple[int | None, Line]]:
    """What other ranks say in the last line of a log of their own."""
    for source in logs:
        if source is chosen.source or source.rank is None:
            continue
        with opened(source) as fd:
            if fd is None:
                continue
            status = os.fstat(fd)
            start = max(status.st_size - _TAIL, 0)
            lines = lines_of(start, os.pread(fd, _TAIL, start), year_of(status.st_mtime))
        if lines and _DONE.match(lines[-1].text):
            yield source.rank, lines[-1]
