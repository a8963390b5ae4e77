"""What the job at the head of a line needs kept, and which cards may be given away meanwhile.

A reservation is made anew in every pass from the cards that are free and the times at which the
others come back; nothing is remembered between passes. Why that is enough is told in
`jumar.jobs.scheduling.schedule`."""

from collections.abc import Iterable
from itertools import groupby, islice

from jumar.jobs.scheduling.cards import Hold, KindCards, Levels
from jumar.jobs.scheduling.records import QueuedJob


class Reservation:
    """The head's claim on its kind, kept up to date as cards are given to jobs behind it.

    `at` is the time by which the head surely has its nodes, None if that depends on jobs that
    nobody knows the end of."""

    def __init__(self, head: QueuedJob, cards: KindCards, now: float) -> None:
        self.head = head
        self._cards = cards
        self._free = cards.free
        self.at, later = _earliest(head, cards, now)
        # Nodes the head counts on, with the cards it does not need there.
        self._spare: dict[str, int]
        if self.at is None:
            self._spare = _useless_cards(head.count, cards)
            self._nodes_to_lose = 0
        else:
            self._spare = {n: has - head.count for n, has in later.items() if has >= head.count}
            self._nodes_to_lose = len(self._spare) - head.nodes
        self._givable = Levels({node: self._can_give(node) for node, _ in cards.free.items()})

    def outlasts(self, job: QueuedJob, now: float) -> bool:
        """Whether the job may still hold its cards when the head wants them."""
        longest_s = job.longest_s
        return self.at is None or longest_s is None or now + longest_s > self.at

    def place(self, job: QueuedJob, now: float) -> list[str] | None:
        """Nodes for a job that outlasts the reservation and leaves it whole, or None."""
        if job.nodes == 1:
            chosen = self._cards.beside(self._givable, job.count, job.lasts_until(now))
        else:
            chosen = self._givable.tightest(job.count, job.nodes)
        missing = job.nodes - len(chosen)
        if missing == 0:
            return chosen
        if missing > self._nodes_to_lose:
            return None
        needed = (n for n in self._free.at_least(job.count) if self._givable[n] < job.count)
        chosen += islice(needed, missing)
        return chosen if len(chosen) == job.nodes else None

    def given(self, nodes: Iterable[str], count: int, *, lasting: bool) -> None:
        """A job behind the head took `count` cards on each node; lasting: it may outlast `at`."""
        for node in nodes:
            if lasting and node in self._spare:
                self._spare[node] -= count
                if self._spare[node] < 0:
                    # The head does without this node, so what is left on it is free for all.
                    del self._spare[node]
                    self._nodes_to_lose -= 1
            self._givable.move(node, self._can_give(node))

    def _can_give(self, node: str) -> int:
        free = self._free[node]
        return min(free, self._spare.get(node, free))


def _earliest(head: QueuedJob, cards: KindCards, now: float) -> tuple[float | None, dict[str, int]]:
    """When enough nodes have enough cards, and what each node has then."""
    has = dict(cards.free.items())
    good = sum(1 for count in has.values() if count >= head.count)
    for ends_by, holds in groupby(_known_ends(cards.holds.values(), now), key=lambda end: end[0]):
        for _, hold in holds:
            for node, count in hold.counts.items():
                before = has[node]
                has[node] = before + count
                good += before < head.count <= before + count
        if good >= head.nodes:
            return ends_by, has
    return None, has


def _known_ends(holds: Iterable[Hold], now: float) -> list[tuple[float, Hold]]:
    """Who ends when; a job past its end is being ended now."""
    ends = [(max(hold.ends_by, now), hold) for hold in holds if hold.ends_by is not None]
    return sorted(ends, key=lambda end: end[0])


def _useless_cards(needed: int, cards: KindCards) -> dict[str, int]:
    """For each node that can ever serve the head: how many cards it cannot use in any future.

    Jobs may end in any order, and early. The node serves the head as soon as its free cards and
    those of some ended jobs come to `needed`. The smallest such sum that is possible at all, less
    `needed`, is what can be taken from the node without changing when it serves."""
    held: dict[str, list[int]] = {}
    for hold in cards.holds.values():
        for node, count in hold.counts.items():
            held.setdefault(node, []).append(count)
    useless: dict[str, int] = {}
    for node, free in cards.free.items():
        sums = 1 << free  # bit n is set: n cards can be free at some time
        for count in held.get(node, ()):
            sums |= sums << count
        enough = sums >> needed
        if enough:
            useless[node] = (enough & -enough).bit_length() - 1
    return useless
