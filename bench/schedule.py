"""One full pass of the scheduler over 100,000 waiting jobs and 10,000 cards, 1,250 nodes of 8.

Two scenes. *busy*: nine cards of ten are held, a job of 32 nodes is at the head, free cards are
kept for it, and the whole line is gone through for jobs that can start beside it. *empty*: all
cards are free, as after a reboot, and as many jobs as possible start. A plain scheduler with the
same rules, but without the bookkeeping that makes it quick, decides the same in the same run."""

import argparse
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jumar.jobs.scheduling.schedule import CardRef, QueuedJob, RunningJob, Start, decide

NOW = 1_000_000.0
USER_LIMIT = 256
CARDS_A_NODE = 8
Nodes = Mapping[str, range]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a pass decides on."""

    queue: Sequence[QueuedJob]
    nodes: Nodes
    running: Sequence[RunningJob]


def make_scenes(jobs: int, nodes: int, seed: int) -> dict[str, Scene]:
    """Small jobs are many, whole nodes some, gangs of nodes few."""
    dice = random.Random(seed)
    names = [f"node{number:04}" for number in range(nodes)]
    cards = {name: range(CARDS_A_NODE) for name in names}
    queue = _make_queue(jobs, dice)
    first = replace(
        queue[0],
        job_id="head",
        user="newcomer",
        count=CARDS_A_NODE,
        nodes=min(32, nodes),
        priority=999,
    )
    return {
        "busy": Scene([first, *queue[1:]], cards, _make_running(names, dice)),
        "empty": Scene(queue, cards, []),
    }


def _make_queue(jobs: int, dice: random.Random) -> list[QueuedJob]:
    shapes = [(1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 8), (8, 32)]
    weights = [40, 20, 15, 15, 6, 3, 1]
    queue = [
        QueuedJob(
            job_id=f"j{order:06}",
            user=f"user{dice.randrange(200)}",
            kind="npu",
            count=count,
            nodes=gang,
            priority=dice.choice([50, 100, 100, 100, 200]),
            order=order,
            time_limit_s=dice.choice([None, 7200.0, 14400.0, 86400.0]),
            grace_s=30.0,
        )
        for order, (count, gang) in enumerate(dice.choices(shapes, weights, k=jobs))
    ]
    return sorted(queue, key=lambda job: (-job.priority, job.order))


def _make_running(names: Sequence[str], dice: random.Random) -> list[RunningJob]:
    running: list[RunningJob] = []
    for name in names:
        card = 0
        while card < CARDS_A_NODE:
            count = dice.choice([1, 2, 4, 8])
            cards = tuple(CardRef(name, card + i) for i in range(count) if card + i < CARDS_A_NODE)
            card += count
            if dice.random() < 0.1:
                continue
            ends_by = None if dice.random() < 0.2 else NOW + dice.uniform(1, 7200)
            user = f"user{dice.randrange(200)}"
            running.append(RunningJob(f"r{len(running):06}", user, "npu", cards, ends_by))
    return running


@dataclass(slots=True)
class Plain:
    """The rules written down as they are told: every job looks at every node."""

    scene: Scene
    free: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    used: dict[str, int] = field(default_factory=dict[str, int])
    held: set[str] = field(default_factory=set[str])
    releases: list[tuple[float, str, int]] = field(default_factory=list[tuple[float, str, int]])
    head: QueuedJob | None = None
    at: float = 0.0
    later: dict[str, int] = field(default_factory=dict[str, int])
    until: dict[str, float] = field(default_factory=dict[str, float])
    """By when all jobs of a node in use have ended."""

    def decide(self) -> list[Start]:
        self.free = {name: list(ids) for name, ids in self.scene.nodes.items()}
        for job in self.scene.running:
            self.used[job.user] = self.used.get(job.user, 0) + len(job.cards)
            for card in job.cards:
                self.free[card.node].remove(card.id)
                self._lengthen(card.node, job.ends_by)
                if job.ends_by is not None:
                    self.releases.append((job.ends_by, card.node, 1))
        return [start for job in self.scene.queue if (start := self._offer(job)) is not None]

    def _offer(self, job: QueuedJob) -> Start | None:
        if job.needs > USER_LIMIT or job.user in self.held:
            return None
        if self.used.get(job.user, 0) + job.needs > USER_LIMIT:
            self.held.add(job.user)
            return None
        lasting = self.head is not None and not self._is_short(job)
        nodes = self._nodes_beside_head(job) if lasting else self._chosen(job, self._free_cards())
        if len(nodes) == job.nodes:
            return self._start(job, nodes, lasting)
        if self.head is None:
            self._reserve(job)
        return None

    def _is_short(self, job: QueuedJob) -> bool:
        return job.longest_s is not None and NOW + job.longest_s <= self.at

    def _free_cards(self) -> dict[str, int]:
        return {node: len(ids) for node, ids in self.free.items()}

    def _chosen(self, job: QueuedJob, cards: Mapping[str, int]) -> list[str]:
        """The tightest nodes of those that give `cards`; one alone is in use by jobs that last as long."""
        fitting = [node for node, count in cards.items() if count >= job.count]
        used = [node for node in fitting if node in self.until]
        if job.nodes > 1 or not used:
            return sorted(fitting, key=lambda node: (cards[node], node))[: job.nodes]
        until = math.inf if job.longest_s is None else NOW + job.longest_s

        def preference(node: str) -> tuple[float, int, str]:
            others = self.until[node]
            return (0.0 if until <= others else until - others, cards[node], node)

        return [min(used, key=preference)]

    def _lengthen(self, node: str, ends_by: float | None) -> None:
        self.until[node] = max(self.until.get(node, 0.0), math.inf if ends_by is None else ends_by)

    def _nodes_beside_head(self, job: QueuedJob) -> list[str]:
        can_give = {node: self._can_give(node) for node in self.free}
        chosen = self._chosen(job, can_give)
        missing = job.nodes - len(chosen)
        if 0 < missing <= self._nodes_to_lose():
            free = self._free_cards()
            fitting = [node for node in free if can_give[node] < job.count <= free[node]]
            chosen += sorted(fitting, key=lambda node: (free[node], node))[:missing]
        return chosen

    def _nodes_to_lose(self) -> int:
        assert self.head is not None
        good = sum(count >= self.head.count for count in self.later.values())
        return good - self.head.nodes

    def _can_give(self, node: str) -> int:
        assert self.head is not None
        spare = self.later[node] - self.head.count
        return len(self.free[node]) if spare < 0 else min(len(self.free[node]), spare)

    def _start(self, job: QueuedJob, nodes: list[str], lasting: bool) -> Start:
        self.used[job.user] = self.used.get(job.user, 0) + job.needs
        cards: list[CardRef] = []
        for node in sorted(nodes):
            ids = self.free[node]
            runs = [ids[i : i + job.count] for i in range(len(ids) - job.count + 1)]
            taken = next((run for run in runs if run[-1] - run[0] < job.count), runs[0])
            self.free[node] = [card for card in ids if card not in taken]
            cards += [CardRef(node, card) for card in taken]
            self._lengthen(node, None if job.longest_s is None else NOW + job.longest_s)
            if self.head is None and job.longest_s is not None:
                self.releases.append((NOW + job.longest_s, node, job.count))
            if lasting:
                self.later[node] -= job.count
        return Start(job.job_id, tuple(cards))

    def _reserve(self, job: QueuedJob) -> None:
        self.head = job
        self.used[job.user] = self.used.get(job.user, 0) + job.needs
        for at in sorted({release[0] for release in self.releases}):
            self.later = {node: len(ids) for node, ids in self.free.items()}
            for ends_by, node, count in self.releases:
                self.later[node] += count if ends_by <= at else 0
            if self._nodes_to_lose() >= 0:
                self.at = at
                return
        raise AssertionError("no time is known for the head: choose another seed")


def timed(decide: Callable[[], list[Start]], rounds: int) -> tuple[float, list[Start]]:
    """The best of some rounds, and what was decided."""
    best, starts = float("inf"), list[Start]()
    for _ in range(rounds):
        began = time.perf_counter()
        starts = decide()
        best = min(best, time.perf_counter() - began)
    return best, starts


def looked_at(scene: Scene) -> int:
    """How many jobs of the line a pass looks at: it stops when no card is free."""
    looks = 0

    def line() -> Iterator[QueuedJob]:
        nonlocal looks
        for job in scene.queue:
            looks += 1
            yield job

    starts_of(scene, line())
    return looks


def starts_of(scene: Scene, queue: Iterable[QueuedJob]) -> list[Start]:
    return decide(queue, {"npu": scene.nodes}, scene.running, now=NOW, user_limit=USER_LIMIT).starts


def measure(name: str, scene: Scene) -> None:
    quick_s, starts = timed(lambda: starts_of(scene, scene.queue), rounds=5)
    plain_s, plain_starts = timed(lambda: Plain(scene).decide(), rounds=1)
    if starts != plain_starts:
        raise SystemExit(f"{name}: the two schedulers do not decide the same")
    looks = looked_at(scene)
    print(f"{name}")
    print(f"  waiting jobs     {len(scene.queue):,}, looked at {looks:,}")
    print(f"  cards            {len(scene.nodes) * CARDS_A_NODE:,} on {len(scene.nodes):,} nodes")
    print(f"  running jobs     {len(scene.running):,}")
    print(f"  started          {len(starts):,}")
    print(f"  full pass        {quick_s:.3f} s, {looks / quick_s:,.0f} decisions a second")
    print(f"  plain scheduler  {plain_s:.3f} s, the same decisions")
    print(f"  ratio            {plain_s / quick_s:.0f} times quicker")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--jobs", type=int, default=100_000)
    arguments.add_argument("--nodes", type=int, default=1250)
    arguments.add_argument("--seed", type=int, default=7)
    given = arguments.parse_args()
    for name, scene in make_scenes(given.jobs, given.nodes, given.seed).items():
        measure(name, scene)


if __name__ == "__main__":
    main()
