"""The cards of one kind: which are free on which node, and when the others come back.

Cards of a node are alike, so whether a job fits is a matter of counts; ids matter only when they
are handed out. Nothing here knows of priority, users or reservations."""

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from jumar.jobs.scheduling.records import RunningJob
from jumar.spec.devices import CardRef


class Levels:
    """Nodes by how many cards each can give, so that the tightest fit is found at once."""

    def __init__(self, cards: Mapping[str, int]) -> None:
        self._level = dict(cards)
        self._nodes: dict[int, list[str]] = {}
        for node in sorted(cards):
            self._nodes.setdefault(cards[node], []).append(node)
        self._levels = sorted(self._nodes)

    def __getitem__(self, node: str) -> int:
        return self._level[node]

    def items(self) -> Iterable[tuple[str, int]]:
        """Each node and what it can give."""
        return self._level.items()

    def move(self, node: str, level: int) -> None:
        """The node can give `level` cards from now on."""
        before = self._level[node]
        if before == level:
            return
        self._level[node] = level
        nodes = self._nodes[before]
        del nodes[bisect_left(nodes, node)]
        if not nodes:
            del self._nodes[before]
            self._levels.remove(before)
        if level not in self._nodes:
            self._nodes[level] = []
            insort(self._levels, level)
        insort(self._nodes[level], node)

    def at_least(self, count: int) -> Iterator[str]:
        """Nodes that can give `count` cards, the tightest first, then by name."""
        for level in self._levels[bisect_left(self._levels, count) :]:
            yield from self._nodes[level]

    def tightest(self, count: int, nodes: int) -> list[str]:
        """Up to `nodes` nodes that can give `count` cards each."""
        return list(islice(self.at_least(count), nodes))


@dataclass(frozen=True, slots=True)
class Hold:
    """What one job holds of a kind: how many cards on which node, and until when at the latest."""

    ends_by: float | None
    counts: Mapping[str, int]


class KindCards:
    """The cards of one kind, free and held."""

    def __init__(self, nodes: Mapping[str, Collection[int]], running: Iterable[RunningJob]) -> None:
        self.holds: dict[str, Hold] = {}
        self._jobs_on: dict[str, set[str]] = {node: set() for node in nodes}
        self._in_use_until: dict[str, float] = {}
        """By node, as far as it was asked for; see `_until`."""
        self._cards: dict[str, tuple[CardRef, ...]] = {}
        self._ids = {node: set(ids) for node, ids in nodes.items()}
        self._totals = Levels({node: len(ids) for node, ids in self._ids.items()})
        self.total = sum(len(ids) for ids in self._ids.values())
        free = {node: set(ids) for node, ids in self._ids.items()}
        for job in running:
            # A card that left the pool while a job holds it does not come back.
            cards = tuple(card for card in job.cards if card.id in free.get(card.node, ()))
            for card in cards:
                free[card.node].discard(card.id)
            self._note(job.job_id, cards, job.ends_by)
        self._free_ids = {node: sorted(ids) for node, ids in free.items()}
        self.free = Levels({node: len(ids) for node, ids in free.items()})
        self.free_total = sum(len(ids) for ids in free.values())

    def could_ever_hold(self, count: int, nodes: int) -> bool:
        """Whether the job would fit if nothing else ran."""
        return len(self._totals.tightest(count, nodes)) == nodes

    def able_nodes(self, count: int) -> int:
        """How many nodes have `count` cards, free or not."""
        return sum(1 for _ in self._totals.at_least(count))

    def take(
        self,
        job_id: str,
        nodes: Iterable[str],
        count: int,
        ends_by: float | None,
        avoids: Collection[CardRef] = (),
    ) -> tuple[CardRef, ...]:
        """Hand out `count` cards of each node, which must be free; those of `avoids` last."""
        cards = tuple(card for node in sorted(nodes) for card in self._take_of(node, count, avoids))
        self._note(job_id, cards, ends_by)
        return cards

    def give_back(self, job_id: str) -> None:
        """The job has ended: its cards are free again."""
        for node in self.holds.pop(job_id).counts:
            self._jobs_on[node].discard(job_id)
            self._in_use_until.pop(node, None)
        for card in self._cards.pop(job_id):
            ids = self._free_ids[card.node]
            insort(ids, card.id)
            self.free.move(card.node, len(ids))
            self.free_total += 1

    def beside(self, levels: Levels, count: int, until: float) -> list[str]:
        """A node that gives `count` cards by `levels` to a job that may last `until` then; none if there is none.

        One that is in use already, and by jobs that last as long, so that whole nodes stay whole and come back whole;
        of several the one with the fewest cards to give."""
        used = [node for node in levels.at_least(count) if self.free[node] < self._totals[node]]
        if not used:
            return levels.tightest(count, 1)
        # The first of equals is the tightest.
        return [min(used, key=lambda node: _longer(until, self._until(node)))]

    def _until(self, node: str) -> float:
        """By when all jobs on the node have ended."""
        known = self._in_use_until.get(node)
        if known is None:
            ends = [self.holds[job_id].ends_by for job_id in self._jobs_on[node]]
            known = max((math.inf if end is None else end for end in ends), default=0.0)
            self._in_use_until[node] = known
        return known

    def held_by(self, job_id: str) -> tuple[CardRef, ...]:
        """The cards of the pool that the job holds."""
        return self._cards[job_id]

    def hurry(self, job_id: str, ends_by: float) -> None:
        """The job has to be gone by then, if not sooner."""
        hold = self.holds[job_id]
        soonest = ends_by if hold.ends_by is None else min(hold.ends_by, ends_by)
        self.holds[job_id] = Hold(soonest, hold.counts)
        for node in hold.counts:
            self._in_use_until.pop(node, None)

    def _note(self, job_id: str, cards: tuple[CardRef, ...], ends_by: float | None) -> None:
        self.holds[job_id] = Hold(ends_by, Counter(card.node for card in cards))
        self._cards[job_id] = cards
        for node in self.holds[job_id].counts:
            self._jobs_on[node].add(job_id)
            self._in_use_until.pop(node, None)

    def _take_of(self, node: str, count: int, avoids: Collection[CardRef]) -> list[CardRef]:
        ids = self._free_ids[node]
        liked = [card for card in ids if CardRef(node, card) not in avoids] if avoids else ids
        if len(liked) < count:
            liked = sorted(ids, key=lambda card: CardRef(node, card) in avoids)[:count]
        first = _lowest_run(liked, count)
        taken = sorted(liked[first : first + count])
        for card in taken:
            ids.remove(card)
        self.free.move(node, len(ids))
        self.free_total -= count
        return [CardRef(node, card) for card in taken]


def _longer(until: float, others: float) -> float:
    """By how much one end is later than another; both may be infinite."""
    return 0.0 if until <= others else until - others


def _lowest_run(ids: list[int], count: int) -> int:
    """Where the lowest `count` neighbouring ids begin; 0 if there are no such neighbours."""
    for first in range(len(ids) - count + 1):
        if ids[first + count - 1] - ids[first] == count - 1:
            return first
    return 0
