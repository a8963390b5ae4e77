"""Which rank the others waited for, and what it was doing then.

Reports of NCCL and gloo name it; else it is who began to wait long after the others, who had not started what they waited in, or who
does not say that it waits."""

import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from jumar.why.details import REMEDY, WHAT, Detail
from jumar.why.doing import Doing, doing
from jumar.why.reading import Line, lines_of
from jumar.why.signs import Sign, Source, before, below, opened, year_of
from jumar.why.standing import Standing
from jumar.why.waited import Waited, listed, span

_TAIL = 8192
_MOST_NAMED = 16
_MOST_RANKS = 4096
_LATER_S = 60.0
"""Who begins to wait so much later than all others is what they waited for."""
_DONE, _SHARED = "done", "evaluate"
WORLD = re.compile(
    r"\b(?:nranks |world_size[=: ]{1,3}|MEMBER: \d{1,6}/|WORLD_SIZE[=:] ?)(\d{1,7})\b"
)
"""How many ranks there are."""
# How a report of TORCH_NCCL_DESYNC_DEBUG and a monitored barrier name who did not come.
_NOT_JOINED = re.compile(
    r"\[(?P<ranks>\d{1,7}(?:, \d{1,7}){0,40})\] finished collective #\d{1,12}, but didn't join collective #\d{1,12}"
)
_NOT_PASSED = re.compile(
    r"Ranks? (?P<ranks>\d{1,7}(?:, ?\d{1,7}){0,40}) failed to pass monitoredBarrier"
)
# Who first calls an operation of NCCL asks the first of its group for an id.
_ID_OF = re.compile(
    r"retr\w{1,3}ving ncclUniqueId from \[(?P<ranks>\d{1,7})\][^\n]{0,200}(?:[Ww]ait timeout|[Ss]ocket [Tt]imeout)"
)
# The prefix of a process of Ray, or a machine's.
_PROCESS = re.compile(
    r"\([^)]{0,100}pid=\w+[^)]{0,80}\)|\d{1,3}(?:\.\d{1,3}){3}: |[a-z][\w-]{0,60}\d: "
)
_REPORTS = (_NOT_JOINED, _NOT_PASSED, _ID_OF)
_NUMBER = re.compile(r"\d{1,7}")


def late(
    chosen: Sign, text: str, standing: Mapping[int, Standing], logs: Sequence[Source]
) -> Waited | None:
    """What the rank was doing that the others waited for."""
    waiting = {rank: one for rank, one in standing.items() if one.is_waiting}
    ranks = named(text) or _later(waiting) or _least(standing) or _quiet(waiting, text, logs)
    limit = max((one.limit_ms for one in waiting.values()), default=0)
    if not ranks:
        # A log of several, in which the first rank draws the bars.
        is_one = waiting and 0 not in waiting and chosen.source.rank is None
        last = _of_others(chosen) if is_one else None
        is_told = last is not None and _is_told(last, limit)
        return _busy(0, last, waiting, limit) if last is not None and is_told else None
    quoted: list[Detail] = []
    for rank in ranks[:_MOST_NAMED]:
        last = _last_of(rank, chosen, standing, logs)
        if last is not None and (_is_told(last, limit) or len(ranks) == 1):
            return _busy(rank, last, waiting, limit)
        if last is not None and not quoted:
            quoted.append(Detail(WHAT, "rank-last", {"rank": str(rank), "said": last.said}))
    values = {"few": listed(ranks), "many": listed(sorted(waiting)) or "?"}
    return Waited("ranks-missing", "peer-silent", values, ranks[0], None, quoted)


def _is_told(last: Doing, limit_ms: int) -> bool:
    """Whether what it did last explains that the others waited.

    What is over does only if it took long. All ranks evaluate together, mostly, and the first draws the bar: one that stood
    still when the wait began tells nothing of that rank."""
    is_long = 2000 * last.spent_s >= limit_ms > 0
    is_shared = last.name == _SHARED and last.whole_s > 0
    return bool(last.name) and (is_long or not (last.is_over or is_shared))


def _busy(rank: int, last: Doing, waiting: Mapping[int, Standing], limit_ms: int) -> Waited:
    others = listed(sorted(one for one in waiting if one != rank)) or "?"
    values = {"rank": str(rank), "said": last.said, "others": others}
    if last.name == _DONE:
        return Waited("busy-done", "peer-finished", values, rank)
    if not any(one.is_timed for one in waiting.values()):
        # Who only lost it knows that it ended, not that it was slow.
        return Waited("gone-said", "peer-silent", values, rank)
    if not _is_told(last, limit_ms):
        return Waited("late-said", "peer-silent", values, rank)
    details: list[Detail] = []
    if limit_ms:
        details.append(Detail(WHAT, "limit-was", {"limit": span(limit_ms // 1000)}))
    if last.whole_s * 1000 > limit_ms > 0:
        whole = {"spent": span(last.spent_s), "whole": span(last.whole_s)}
        details.append(Detail(REMEDY, "limit-needed", whole))
    return Waited(f"busy-{last.name}", "peer-busy", values, rank, None, details)


def _of_others(chosen: Sign) -> Doing | None:
    """What other processes say in the same log: below it, too, where lines tell whose they are."""
    above, writer = before(chosen), chosen.event.line.writer
    process = _PROCESS.match(writer)
    if process is None:
        return doing(above)
    lines = [*above, *below(chosen)]
    return doing([line for line in lines if line.writer and not line.writer.startswith(process[0])])


def named(text: str) -> list[int]:
    """The ranks that a report says did not come."""
    for pattern in _REPORTS:
        found = pattern.search(text)
        if found is not None:
            return [int(number) for number in _NUMBER.findall(found["ranks"])]
    return []


def _later(waiting: Mapping[int, Standing]) -> list[int]:
    """The rank that began to wait long after all others had."""
    if any(one.since is None or not one.op for one in waiting.values()):
        return []
    begun = sorted((one.since or 0.0, rank) for rank, one in waiting.items())
    gaps = [(after[0] - at[0], index) for index, (at, after) in enumerate(pairwise(begun))]
    largest, index = max(gaps, default=(0.0, 0))
    found = [rank for _, rank in begun[index + 1 :]]
    # As many as came together say nothing of who was late.
    return found if largest > _LATER_S and len(found) == 1 else []


def _least(standing: Mapping[int, Standing]) -> list[int]:
    """Who had not even started the operation that others waited in, by its own count."""
    waiting = [one for one in standing.values() if one.is_waiting and one.seq is not None]
    if len({one.group for one in waiting}) != 1:
        return []
    wanted = min(one.seq or 0 for one in waiting)
    return [
        rank
        for rank, one in sorted(standing.items())
        if not one.is_waiting and one.enqueued is not None and one.enqueued < wanted
    ]


def _quiet(waiting: Mapping[int, Standing], text: str, logs: Sequence[Source]) -> list[int]:
    """The ranks that do not say that they wait, where most others do."""
    ranks = {source.rank for source in logs if source.rank is not None}
    if not ranks and any(one.completed for one in waiting.values()):
        # One log of all; of the first operation NCCL's own lines tell more.
        worlds = {int(number) for number in WORLD.findall(text)}
        ranks = set(range(min(worlds.pop(), _MOST_RANKS))) if len(worlds) == 1 else set[int]()
    if not ranks:
        ranks = _heard_elsewhere(waiting, logs)
    quiet = sorted(ranks - waiting.keys())
    return quiet if len(quiet) <= len(waiting) else []


def _heard_elsewhere(waiting: Mapping[int, Standing], logs: Sequence[Source]) -> set[int]:
    """The ranks that write into logs, as those of other machines, in which nobody waits."""
    told = {one.sign.source.name for one in waiting.values()}
    rest = [source for source in logs if source.name not in told][:_MOST_NAMED]
    return {line.rank for source in rest for line in _tail(source) if line.rank is not None}


def _last_of(
    rank: int, chosen: Sign, standing: Mapping[int, Standing], logs: Sequence[Source]
) -> Doing | None:
    """What a rank did last, by its own log, or above its own word in a log of several."""
    one = standing.get(rank)
    source = next((source for source in logs if source.rank == rank), None)
    if one is not None:
        return doing([line for line in before(one.sign) if line.rank in (rank, None)])
    if source is not None:
        return doing(_tail(source))
    lines = before(chosen)
    own = [line for line in lines if line.rank == rank]
    # A line of nobody is mostly the first rank's.
    return doing(own) or (
        doing([line for line in lines if line.rank is None]) if rank == 0 else None
    )


def _tail(source: Source) -> list[Line]:
    with opened(source) as fd:
        if fd is None:
            return []
        status = os.fstat(fd)
        start = max(status.st_size - _TAIL, 0)
        return lines_of(start, os.pread(fd, _TAIL, start), year_of(status.st_mtime))
