"""Which running jobs give way to one that cannot otherwise start: a pure function.

The fewest that do, and of those the ones that lose the least work: card-seconds since their last
checkpoint. Jobs on one node are chosen by a small dynamic program over its cards, node by node. A
job on several nodes ties those together, which makes the choice a hard problem in general: it is
searched by branch and bound, with a limit on the effort. Within the limit the choice is the best
there is; beyond it (dozens of preemptible jobs of several nodes each) it is the best one found,
and still none of them is there for nothing."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from heapq import nsmallest

from jumar.jobs.scheduling.records import QueuedJob, RunningJob

_MOST_LOOKS = 200_000
"""How often the search may look at a node: a fraction of a second."""
_ALIKE = 1e-9


def victims(
    head: QueuedJob, free: Mapping[str, int], running: Iterable[RunningJob], now: float
) -> tuple[str, ...]:
    """The jobs to ask so that `head` fits once they are gone; none if none is needed or none suffice.

    `free`: free cards of the head's kind, by node, nodes without any included. `running`: who holds
    cards; jobs of other kinds are passed over, and the cards of jobs that leave already count as
    free. A preemptible head has nobody leave for it, and a job is never asked that is not
    preemptible, or that was preempted before, has not written a checkpoint since and is still in the time that is
    kept for it (`RunningJob.spared_until`)."""
    if head.preemptible:
        return ()
    have = dict(free)
    able: list[_Candidate] = []
    for job in running:
        if job.kind != head.kind:
            continue
        counts = Counter(card.node for card in job.cards if card.node in have)
        if job.leaves:
            for node, count in counts.items():
                have[node] += count
        elif job.preemptible and not job.is_spared(now):
            able.append(_Candidate(job.job_id, counts, job.lost_card_s(now)))
    missing = head.nodes - sum(count >= head.count for count in have.values())
    if missing <= 0:
        return ()
    lacking = {node: head.count - count for node, count in have.items() if count < head.count}
    chosen = _Search(lacking, missing, able).best()
    return tuple(sorted(job.job_id for job in chosen))


@dataclass(frozen=True, slots=True)
class _Candidate:
    job_id: str
    counts: Mapping[str, int]
    """Its cards on each node."""
    lost: float


@dataclass(frozen=True, slots=True)
class _Choice:
    """Candidates and what they cost; in a bound, a job on several nodes counts in parts."""

    votes: float = 0.0
    lost: float = 0.0
    jobs: tuple[_Candidate, ...] = ()

    def plus(self, other: "_Choice") -> "_Choice":
        return _Choice(self.votes + other.votes, self.lost + other.lost, self.jobs + other.jobs)

    def with_job(self, job: _Candidate, part: float = 1.0) -> "_Choice":
        return _Choice(self.votes + part, self.lost + part * job.lost, (*self.jobs, job))

    @property
    def cost(self) -> tuple[float, float]:
        return (self.votes, self.lost)


_Bounds = tuple[_Choice | None, _Choice | None]
"""With the undecided counting in parts, and without them; None: the node cannot serve."""


class _Search:
    """`missing` more nodes have to come by the cards that they lack."""

    def __init__(
        self, lacking: Mapping[str, int], missing: int, able: Iterable[_Candidate]
    ) -> None:
        self._missing = missing
        able = sorted(able, key=lambda job: (job.lost, job.job_id))
        self._lacking, self._able = _only_helpful(lacking, able)
        self._gangs = [job for job in self._able if len(job.counts) > 1]
        self._singles: dict[str, list[_Candidate]] = {node: [] for node in self._lacking}
        self._gangs_on: dict[str, list[int]] = {node: [] for node in self._lacking}
        for job in self._able:
            if len(job.counts) == 1:
                self._singles[next(iter(job.counts))].append(job)
        for number, gang in enumerate(self._gangs):
            for node in gang.counts:
                self._gangs_on[node].append(number)
        self._mask = {node: sum(1 << n for n in on) for node, on in self._gangs_on.items()}
        self._known: dict[tuple[str, int, int], _Bounds] = {}

    def best(self) -> tuple[_Candidate, ...]:
        if len(self._lacking) < self._missing:
            return ()
        best = _chosen(self._without_redundant())
        looks = 0
        undecided = [(0, 0, 0)]  # which gang is next, those that go, those that stay
        while undecided and looks < _MOST_LOOKS:
            number, go, stay = undecided.pop()
            looks += len(self._lacking)
            bound, found = self._bounds(go, stay)
            if found is not None and _is_less(found.cost, best.cost):
                best = found
            if bound is None or not _may_beat(bound.cost, best.cost) or number == len(self._gangs):
                continue
            undecided.append((number + 1, go, stay | 1 << number))
            undecided.append((number + 1, go | 1 << number, stay))
        return best.jobs

    def _bounds(self, go: int, stay: int) -> _Bounds:
        """What no choice with these gangs is cheaper than, and the best without further ones."""
        gone = _chosen(gang for number, gang in enumerate(self._gangs) if go >> number & 1)
        on_nodes = [self._of_node(node, go, stay) for node in self._lacking]
        return (
            self._sum(gone, [bound for bound, _ in on_nodes]),
            self._sum(gone, [found for _, found in on_nodes]),
        )

    def _sum(self, gone: _Choice, on_nodes: Iterable[_Choice | None]) -> _Choice | None:
        able = [choice for choice in on_nodes if choice is not None]
        if len(able) < self._missing:
            return None
        cheapest = nsmallest(self._missing, able, key=lambda choice: choice.cost)
        return reduce(_Choice.plus, cheapest, gone)

    def _of_node(self, node: str, go: int, stay: int) -> _Bounds:
        mask = self._mask[node]
        key = (node, go & mask, stay & mask)
        if key not in self._known:
            lacks = self._lacking[node]
            parts = [(job, 1.0) for job in self._singles[node]]
            undecided: list[tuple[_Candidate, float]] = []
            for number in self._gangs_on[node]:
                gang = self._gangs[number]
                if go >> number & 1:
                    lacks -= gang.counts[node]
                elif not stay >> number & 1:
                    undecided.append((gang, 1.0 / len(gang.counts)))
            found = _cheapest(node, lacks, parts)
            bound = _cheapest(node, lacks, [*parts, *undecided]) if undecided else found
            self._known[key] = (bound, found)
        return self._known[key]

    def _without_redundant(self) -> list[_Candidate]:
        """A choice to begin with: all, less those that are not needed, the dearest first."""
        lacks = dict(self._lacking)
        for job in self._able:
            for node, count in job.counts.items():
                lacks[node] -= count
        served = sum(count <= 0 for count in lacks.values())
        kept: list[_Candidate] = []
        for job in reversed(self._able):
            lost = sum(lacks[node] <= 0 < lacks[node] + n for node, n in job.counts.items())
            if served - lost < self._missing:
                kept.append(job)
                continue
            served -= lost
            for node, count in job.counts.items():
                lacks[node] += count
        return kept


def _only_helpful(
    lacking: Mapping[str, int], able: Sequence[_Candidate]
) -> tuple[dict[str, int], list[_Candidate]]:
    """Leave out the nodes that can never serve, and who is on no other."""
    could_give = Counter[str]()
    for job in able:
        could_give.update(job.counts)
    nodes = {node: lacks for node, lacks in lacking.items() if could_give[node] >= lacks}
    left = [
        _Candidate(job.job_id, {n: c for n, c in job.counts.items() if n in nodes}, job.lost)
        for job in able
    ]
    return nodes, [job for job in left if job.counts]


def _cheapest(node: str, lacks: int, parts: Iterable[tuple[_Candidate, float]]) -> _Choice | None:
    """The cheapest of these jobs that hold at least `lacks` cards on the node."""
    if lacks <= 0:
        return _Choice()
    by_cards: list[_Choice | None] = [_Choice(), *[None] * lacks]
    for job, part in parts:
        for cards in range(lacks - 1, -1, -1):
            before = by_cards[cards]
            if before is None:
                continue
            choice = before.with_job(job, part)
            reached = min(lacks, cards + job.counts[node])
            known = by_cards[reached]
            if known is None or _is_less(choice.cost, known.cost):
                by_cards[reached] = choice
    return by_cards[lacks]


def _chosen(jobs: Iterable[_Candidate]) -> _Choice:
    return reduce(_Choice.with_job, jobs, _Choice())


def _is_less(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Fewer jobs, or as many that lose less; sums of parts are not exact."""
    if abs(one[0] - other[0]) > _ALIKE:
        return one[0] < other[0]
    return one[1] < other[1] - _ALIKE


def _may_beat(bound: tuple[float, float], best: tuple[float, float]) -> bool:
    """Only where the bound reaches the best's number of jobs does its loss say anything."""
    if bound[0] < best[0] - _ALIKE:
        return True
    return _is_less(bound, best)
