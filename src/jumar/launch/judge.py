"""Who or what is to blame for the end of a run: of all that nodes tell, the first fault."""

import math
from collections import Counter
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from jumar.launch.faults import UNKNOWN_PLACE, accused_in, goes_on, is_collective, own_place
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import read_stop
from jumar.launch.jobdir.news import NO_VALUES, Ending, Values
from jumar.launch.processes.supervise import RUN_AGAIN
from jumar.launch.verdict import NO_ANSWER, NODE_LOST, Summary, Verdict, node_lost, who

_COMMAND = "the command"
_SEEN_LATE_S = 2.0
"""A line is dated as it is written; that a process has ended is seen a moment later, on a busy machine
after others have complained of it."""
STOPS = {
    # Who asked is known to the server alone.
    "stopped": ("stopped", "stopped", "stopped by its owner"),
    "signal": ("stopped", "stopped-by-signal", "stopped by a signal to its supervisor"),
    "timed-out": ("timed-out", "time-limit", "reached its time limit"),
    "preempted": ("preempted", "preempted", "ended to make room for another job"),
}
_OF_THE_PLATFORM = ("timed-out", "preempted")


def as_asked(directory: JobDir, ending: Ending) -> Ending:
    """How an attempt ended that was lost: by what the platform had asked for before, if it had. Whoever is killed then,
    the job has to go on as if all had obeyed."""
    return ending_asked(ending, read_stop(directory) if ending.state == "lost" else None)


def ending_asked(ending: Ending, asked: Optional[str]) -> Ending:
    """The same, where it is known otherwise what had been asked for."""
    if ending.state != "lost" or asked not in _OF_THE_PLATFORM:
        return ending
    state, cause, reason = STOPS[asked]
    return ending._replace(state=state, cause=cause, reason=reason, values=NO_VALUES)


def judge(
    failures: Sequence[Verdict],
    summaries: Sequence[Summary],
    lost: Mapping[int, str],
    *,
    restarts_left: int,
    nodes: int,
) -> Verdict:
    """`failures` are those of ranks that nobody had asked to end, `summaries` in the order of the
    nodes; `lost` names nodes that are gone."""
    if lost:
        return node_lost(", ".join(lost.values()), min(lost), NODE_LOST)
    stop = next((summary.stop for summary in summaries if summary.stop is not None), None)
    if failures:
        first = _cause_of_all(failures, [other for one in summaries for other in one.others])
        again = restarts_left > 0 and stop is None and not first.is_setup
        return _naming_node(first, nodes)._replace(again=again)
    hung = [(summary.node, *one) for summary in summaries for one in summary.hung]
    if hung and stop is None:
        made = _hang(hung, max(summary.limit_s for summary in summaries))
        return made._replace(again=restarts_left > 0)
    ends = [(summary.node, *end) for summary in summaries for end in summary.codes]
    bad = [end for end in ends if end[2] not in (0, RUN_AGAIN)]
    telling = (*bad, *(end for end in ends if end[2] == RUN_AGAIN))
    if stop is not None:
        known = STOPS.get(stop, ("stopped", "stopped", f"ended: {stop}"))
        return Verdict(*known, code=telling[0][2] if telling else 0)
    left = next((summary.left for summary in summaries if summary.left is not None), None)
    if left is not None:
        return _naming_node(left, nodes)
    for node, rank, code in telling:
        ended = _ended_with(rank if len(ends) > 1 else None, node, code)
        return _naming_node(ended._replace(rank=rank), nodes)
    return Verdict("succeeded", "done", "done", 0, exit_code=0)


def _cause_of_all(failures: Sequence[Verdict], others: Sequence[Verdict]) -> Verdict:
    """The first fault by time. If all who failed only miss a peer, it is the one who does not."""
    faults = [failure for failure in failures if not failure.is_consequence]
    faults += [other for other in others if other.is_fault]
    accusers = [failure for failure in failures if accused_in(failure.tail) is not None]
    accused_at = min((accuser.at for accuser in accusers), default=math.inf)
    first = min(faults, key=lambda fault: fault.at, default=None)
    if first is not None and first.at <= accused_at:
        late = _seen_late(first, failures, is_asked=first in others)
        return late or _left_early(first, faults, others) or first
    if accusers:
        return _accused([*failures, *others], accusers)
    if len(others) == 1:
        return others[0]
    return _odd_one(failures) or min(failures, key=lambda failure: failure.at)


def _accused(ranks: Sequence[Verdict], accusers: Sequence[Verdict]) -> Verdict:
    """Whom several find to differ from themselves; one alone is the one that differs."""
    votes = Counter(accused_in(accuser.tail) for accuser in accusers)
    (rank, count), *_ = votes.most_common(1)
    first = min(accusers, key=lambda accuser: accuser.at)
    found = next((one for one in ranks if one.rank == rank), None)
    if count == 1 or found is None:
        return first
    telling = next(accuser for accuser in accusers if accused_in(accuser.tail) == rank)
    return found._replace(tail=telling.tail, log=telling.log)


def _seen_late(first: Verdict, failures: Sequence[Verdict], *, is_asked: bool) -> Optional[Verdict]:
    """One that ended without a word just when the first fault was written, which is what came of it: a
    kill always comes from elsewhere, other ends come before those that were asked for. So does a fault
    after which more was written, for the time of a log is that of its last line."""
    ended = [one for one in failures if not one.is_consequence]
    ended = [one for one in ended if not one.is_fault or (is_asked and goes_on(one.tail))]
    ended = [failure for failure in ended if is_asked or failure.signal == "SIGKILL"]
    late = [failure for failure in ended if failure.at - first.at < _SEEN_LATE_S]
    return min(late, key=lambda failure: failure.at, default=None)


def _left_early(
    first: Verdict, faults: Sequence[Verdict], others: Sequence[Verdict]
) -> Optional[Verdict]:
    """The only one that called itself done before the others all failed in one line of the script: there
    they waited for it, whatever they make of that."""
    done = [one for one in others if one.exit_code == 0 and one.at - first.at < _SEEN_LATE_S]
    places = {own_place(fault.tail) for fault in faults}
    is_missed = len(done) == 1 and len(faults) > 1 and len(places) == 1 and None not in places
    return done[0] if is_missed else None


def _odd_one(failures: Sequence[Verdict]) -> Optional[Verdict]:
    """The one that was at another place of the script than all others, which were at one."""
    by_place: Dict[Optional[str], List[Verdict]] = {}
    for failure in failures:
        by_place.setdefault(own_place(failure.tail), []).append(failure)
    if len(failures) < 3 or len(by_place) != 2:
        return None
    few = min(by_place.values(), key=len)
    return few[0] if len(few) == 1 else None


def _hang(hung: Sequence[Tuple[int, int, str]], limit_s: float) -> Verdict:
    """Most wait in one place, or all but one in a collective; who is elsewhere is whom they wait for."""
    by_place: Dict[str, List[Tuple[int, int]]] = {}
    for node, rank, place in hung:
        by_place.setdefault(place, []).append((rank, node))
    # Of whom nothing is known it is not known to be elsewhere either.
    where = sorted(
        by_place.items(),
        key=lambda item: (item[0] == UNKNOWN_PLACE, len(item[1]), is_collective(item[0])),
    )
    words = "; ".join(f"{_ranks([rank for rank, _ in ranks])} in {place}" for place, ranks in where)
    reason = f"no rank has done anything for {limit_s:g} s: {words}"
    made = Verdict("failed", "hang", reason, NO_ANSWER)
    made = made._replace(values={"limit_s": f"{limit_s:g}", "places": words})
    known = [(place, ranks) for place, ranks in where if place != UNKNOWN_PLACE]
    if len(known) < 2 or len(known[0][1]) > 1:
        return made
    (place, [(rank, node)]), (next_place, next_ranks) = known[:2]
    # Two that are each alone in a place of their own differ only if one of them waits.
    is_odd = len(next_ranks) > 1 or (is_collective(next_place) and not is_collective(place))
    return made._replace(rank=rank, node=node) if is_odd else made


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"


def _ended_with(rank: Optional[int], node: int, code: int) -> Verdict:
    """A code that nobody has called a failure before all had ended."""
    state, cause, words = "failed", "exit-code", f"exited with code {code}"
    if code == RUN_AGAIN:
        # As at the time limit: it is not done, and whoever has segments left starts the next.
        state, cause = "timed-out", "run-again"
        words = f"saved and asked to be run again (code {code})"
    values: Values = {"code": code} if rank is None else {"code": code, "rank": rank}
    subject = _COMMAND if rank is None else who(rank)
    return Verdict(state, cause, f"{subject} {words}", code, code, node=node, values=values)


def _naming_node(failure: Verdict, nodes: int) -> Verdict:
    if nodes == 1 or failure.node is None:
        return failure
    subject = _COMMAND if failure.rank is None else who(failure.rank)
    reason = failure.reason.replace(subject, f"{subject} on node {failure.node}", 1)
    if reason == failure.reason:
        reason = f"{reason} (node {failure.node})"
    return failure._replace(reason=reason, values={**failure.values, "node": failure.node})
