"""Why ranks waited for each other, where their logs together show it.

Who waits in a collective operation knows nothing of the others. What all say shows it: that they call different operations, that one
is behind or came later, what it was doing then, or that nobody was late and the cards do not reach each other."""

import re
from collections.abc import Collection, Mapping, Sequence

from jumar.why.details import REMEDY, Detail
from jumar.why.doing import doing
from jumar.why.knowledge import Level
from jumar.why.late import WORLD, late
from jumar.why.signs import Sign, Source, around, before
from jumar.why.standing import Standing, groups, standings
from jumar.why.waited import Waited, called, listed, span

_MOST_AROUND = 4
_FIRST_SEQ = 3
# Of these every rank gives as many elements as every other.
_EVEN = frozenset(
    ("ALLREDUCE", "_ALLGATHER_BASE", "ALLGATHER", "_REDUCE_SCATTER_BASE", "BROADCAST", "REDUCE")
)
# Operations of pairs, and such as mean another thing on each rank.
_PAIRED = frozenset(("SEND", "RECV", "COALESCED", "UNKNOWN", "GATHER", "SCATTER"))
# The two sides of one operation.
_MATCHED = {"SEND": "SEND/RECV", "RECV": "SEND/RECV"}
# What a process says of itself whose thread that watches gets no turn.
_HEARTBEAT = re.compile(
    r"watchdog got stuck for|Heartbeat monitor timed out|ProcessGroupNCCL watchdog hang"
)
# All ranks have to come for that, and NCCL does it at their first operation.
_CONNECTED = re.compile(
    r"NCCL INFO [^\n]{0,200}Init COMPLETE|NCCL INFO Connected all (?:rings|trees)"
)
_WAYS = {
    "net-ib": re.compile(r"\bvia NET/IB\b"),
    "net-socket": re.compile(r"\bvia NET/Socket\b"),
    "p2p": re.compile(r"\bvia P2P\b"),
    "shm": re.compile(r"\bvia SHM\b"),
}
_OF_NPUS, _LATE_ON_NPUS = "WorkHCCL", "EI0006"
# With these a rank collects what is spread over all of them: the weights of a model, mostly to save it.
_GATHERS = frozenset(("_ALLGATHER_BASE", "ALLGATHER", "ALLGATHER_COALESCED"))
_FEWEST_WHOLE = 2
# Of so many that wait one may be missing: else they are of a group, or of another machine.
_SHARE_UNHEARD = 3
# So many elements are weights or gradients, not results.
_OF_MODELS = 100_000


def waited(chosen: Sign, others: Sequence[Sign], logs: Sequence[Source]) -> Waited | None:
    """Why ranks waited; None where their logs do not show it."""
    signs = [sign for sign in (chosen, *others) if sign.event.level is Level.LOST_PEER]
    standing = standings(signs)
    text = "\n".join(around(sign) for sign in signs[:_MOST_AROUND])
    found = (
        _differing(standing)
        or _apart(standing, logs)
        or late(chosen, text, standing, logs)
        or _unlinked(chosen, text, standing, logs)
        or _stuck(chosen, standing)
        or _alone(chosen, text, standing)
    )
    if found is not None and _LATE_ON_NPUS in text:
        found.details.append(Detail(REMEDY, "hccl-connect", {}))
    return found


def _differing(standing: Mapping[int, Standing]) -> Waited | None:
    """That ranks of a group call different operations, or the same with different sizes, or are not at the same number."""
    for ranks in groups(standing).values():
        ops, sizes = _by(ranks, "op"), _by(ranks, "numel")
        is_same = len({one.seq for one in ranks.values()}) == 1
        if len(ranks) == 1 or ops.keys() & _PAIRED:
            continue
        if not is_same:
            return _behind(ranks)
        if len(ops) > 1:
            return _mismatch(_how_ops_differ(ranks), ranks, ops)
        if len(sizes) > 1 and ops.keys() <= _EVEN:
            return _mismatch(_how_sizes_differ(ops, sizes), ranks, sizes)
    return None


def _how_sizes_differ(ops: Collection[str], sizes: Collection[str]) -> str:
    """Whether it is one call with another part of the data, one of other models, or no common call at all."""
    if _GATHERS.isdisjoint(ops):
        if all(map(_is_large, sizes)):
            return "ranks-models"
        if any(map(_is_large, sizes)):
            # Gradients on the one side; a loss, a flag or a barrier on the other.
            return "ranks-differ"
    return "ranks-sizes"


def _is_large(numel: str) -> bool:
    return numel.isdigit() and int(numel) >= _OF_MODELS


def _how_ops_differ(ranks: Mapping[int, Standing]) -> str:
    """Whether it is the first rank alone that collects the weights, while the others are at a barrier."""
    rest = [one for rank, one in ranks.items() if rank != 0]
    is_alone = 0 in ranks and ranks[0].op in _GATHERS
    is_barrier = all(one.op == "ALLREDUCE" and one.numel == "1" for one in rest)
    return "ranks-gather" if is_alone and is_barrier else "ranks-differ"


def _by(ranks: Mapping[int, Standing], name: str) -> dict[str, list[int]]:
    """The ranks by what they have under a name."""
    found: dict[str, list[int]] = {}
    for rank, one in ranks.items():
        found.setdefault(getattr(one, name), []).append(rank)
    return found


def _mismatch(form: str, ranks: Mapping[int, Standing], by: Mapping[str, Sequence[int]]) -> Waited:
    # The fewest have mostly left the common way.
    fewest, *_, most = sorted(by.values(), key=len)
    return _compared(form, ranks, fewest, most)


def _behind(ranks: Mapping[int, Standing]) -> Waited:
    least = min(one.seq or 0 for one in ranks.values())
    behind = [rank for rank, one in ranks.items() if one.seq == least]
    ahead = [rank for rank in ranks if rank not in behind]
    return _compared("ranks-behind", ranks, behind, ahead)


def _compared(
    form: str, ranks: Mapping[int, Standing], few: Sequence[int], many: Sequence[int]
) -> Waited:
    """What some ranks stood in, and what others did."""
    one, other = ranks[few[0]], ranks[many[0]]
    values = {
        "few": listed(few),
        "seq": str(one.seq),
        "op": one.op,
        "numel": one.numel or "?",
        "many": listed(many),
        "ahead": str(other.seq),
        "other": other.op,
        "others": other.numel or "?",
    }
    place, details = called(one)
    if place is None:
        place, details = called(other)
    return Waited(form, "rank-mismatch", values, few[0], place, details)


def _apart(standing: Mapping[int, Standing], logs: Sequence[Source]) -> Waited | None:
    """That ranks whose time ran out stood at different lines of the script."""
    stood: dict[str, list[int]] = {}
    for rank, one in sorted(standing.items()):
        if one.is_waiting and one.place:
            stood.setdefault(one.place, []).append(rank)
    ranks = {source.rank for source in logs if source.rank is not None}
    is_all = ranks <= standing.keys() and any(one.is_timed for one in standing.values())
    if len(stood) < 2 or not is_all:
        return None
    few, *_, many = sorted(stood.values(), key=len)
    one, other = standing[few[0]], standing[many[0]]
    values = {
        "few": listed(few),
        "line": one.line,
        "place": one.place,
        "many": listed(many),
        "other": other.line,
        "where": other.place,
    }
    return Waited("ranks-apart", "rank-mismatch", values, few[0], one.place)


def _unlinked(
    chosen: Sign, text: str, standing: Mapping[int, Standing], logs: Sequence[Source]
) -> Waited | None:
    """That all ranks stand in one and the same operation: nobody was late, so it is the transfer that does not end."""
    ranks = {source.rank for source in logs if source.rank is not None}
    waiting = {rank: one for rank, one in standing.items() if one.seq is not None}
    places = {(one.seq, _MATCHED.get(one.op, one.op), one.group) for one in waiting.values()}
    if len(places) != 1 or _OF_NPUS in text:
        return None
    one = next(iter(waiting.values()))
    worlds = {int(number) for number in WORLD.findall(text)}
    last = doing(before(chosen))
    if not ranks and last is not None and last.name and not last.is_over:
        # Somebody is at work there.
        return None
    is_whole = max(worlds, default=0) <= len(waiting) > 1 and (
        bool(worlds) or (ranks or _all_of_a_machine(waiting)) == waiting.keys()
    )
    is_connected = _is_first(one) and _CONNECTED.search(text) is not None
    if not is_whole and not is_connected:
        return None
    values = _values(one) | {"ranks": listed(sorted(waiting))}
    if not _is_first(one):
        return Waited("link-later", "link-stuck", values, None, *called(one))
    way = next((name for name, pattern in _WAYS.items() if pattern.search(text)), "first")
    return Waited(f"link-{way}", "link-stuck", values)


def _all_of_a_machine(waiting: Mapping[int, Standing]) -> set[int]:
    """The ranks in a log of several that look like all: as many as machines have cards, from the first on."""
    count = len(waiting)
    is_usual = count >= _FEWEST_WHOLE and count.bit_count() == 1
    return set(range(count)) if is_usual else set()


def _stuck(chosen: Sign, standing: Mapping[int, Standing]) -> Waited | None:
    """That the process itself did not get on."""
    is_waiting = any(one.seq is not None for one in standing.values())
    if is_waiting or _HEARTBEAT.search(chosen.event.line.text) is None:
        return None
    return Waited("watchdog-stuck", "peer-late", {}, chosen.rank)


def _alone(chosen: Sign, text: str, standing: Mapping[int, Standing]) -> Waited | None:
    """What a rank's own words tell where nothing is known of the others."""
    one = standing.get(chosen.rank) if chosen.rank is not None else None
    if one is None or one.seq is None or _OF_NPUS in text:
        return None
    waiting = sorted(rank for rank, other in standing.items() if other.is_waiting)
    values = _values(one) | {"ranks": listed(waiting), "limit": span(one.limit_ms // 1000)}
    place, details = called(one)
    form = "wait-first" if _is_first(one) else "wait-later"
    if form == "wait-later" and waiting == [0] and one.op in _GATHERS:
        form = "gather-alone"
    unheard = _unheard(standing) if chosen.source.rank is None else []
    if unheard:
        form = "wait-unheard"
        values |= {"few": listed(unheard)}
    if place is not None:
        form = "wait-called"
        values |= {"rank": str(chosen.rank)} | dict(details.pop().values)
    return Waited(form, "peer-late", values, chosen.rank, place, details)


def _unheard(standing: Mapping[int, Standing]) -> list[int]:
    """The few ranks below the last one that say nothing, where all others stand in one operation."""
    waiting = {rank: one for rank, one in standing.items() if one.seq is not None}
    places = {(one.seq, one.op, one.group) for one in waiting.values()}
    missing = [rank for rank in range(max(waiting, default=0)) if rank not in waiting]
    is_few = _SHARE_UNHEARD * len(missing) <= len(waiting)
    return missing if len(places) == 1 and is_few and len(waiting) == len(standing) else []


def _values(one: Standing) -> dict[str, str]:
    return {"seq": str(one.seq), "op": one.op, "numel": one.numel or "?"}


def _is_first(one: Standing) -> bool:
    """Whether nothing of its group had ended before."""
    return one.seq is not None and one.seq <= _FIRST_SEQ and (one.completed or 0) <= 0
