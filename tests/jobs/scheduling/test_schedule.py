"""One pass of the scheduler, held against the rules told slowly.

`allowed` tries every placement and, behind a head, every future; it shares no code with the
scheduler. The scheduler must start a job exactly when some placement is allowed."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from random import Random
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.jobs.scheduling.records import Line
from jumar.jobs.scheduling.schedule import Pool, QueuedJob, RunningJob, Start, decide
from jumar.spec.devices import CardRef

NOW = 100.0
T = TypeVar("T")
many = settings(max_examples=300, deadline=None)


@dataclass(frozen=True)
class Scene:
    queue: tuple[QueuedJob, ...]
    pool: Pool
    running: tuple[RunningJob, ...]
    user_limit: int | None

    def starts(self) -> list[Start]:
        return decide(
            self.queue, self.pool, self.running, now=NOW, user_limit=self.user_limit
        ).starts

    def after(self, starts: Iterable[Start]) -> "Scene":
        """The same moment, once the jobs have been started."""
        jobs = {job.job_id: job for job in self.queue}
        began = {start.job_id: started(jobs[start.job_id], start.cards) for start in starts}
        queue = tuple(job for job in self.queue if job.job_id not in began)
        return replace(self, queue=queue, running=(*self.running, *began.values()))


def job(
    job_id: str,
    count: int = 1,
    *,
    nodes: int = 1,
    kind: str = "npu",
    user: str = "ann",
    order: int = 0,
    priority: int = 100,
    limit: float | None = None,
) -> QueuedJob:
    return QueuedJob(job_id, user, kind, count, nodes, priority, order, limit)


def holding(
    job_id: str, *cards: tuple[str, int], ends_by: float | None = None, user: str = "eve"
) -> RunningJob:
    return RunningJob(job_id, user, "npu", tuple(CardRef(*card) for card in cards), ends_by)


def started(waiting: QueuedJob, cards: tuple[CardRef, ...]) -> RunningJob:
    ends_by = None if waiting.longest_s is None else NOW + waiting.longest_s
    return RunningJob(waiting.job_id, waiting.user, waiting.kind, cards, ends_by)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    pool = {
        kind: {
            f"n{node}": tuple(range(draw(st.integers(1, 5))))
            for node in range(draw(st.integers(1, 3)))
        }
        for kind in draw(st.sampled_from([["npu"], ["npu", "cpu"]]))
    }
    users = st.sampled_from(["ann", "bob", "eve"])
    running: list[RunningJob] = []
    for kind, nodes in pool.items():
        holders = st.integers(0, 3)  # 0: the card is free
        owners = {CardRef(n, i): draw(holders) for n, ids in nodes.items() for i in ids}
        for holder in (1, 2, 3):
            cards = tuple(card for card, owner in owners.items() if owner == holder)
            ends_by = draw(st.none() | st.integers(95, 110).map(float))
            if cards:
                running.append(RunningJob(f"{kind}{holder}", draw(users), kind, cards, ends_by))
    line = Line()
    for order in range(draw(st.integers(1, 7))):
        line.add(
            job(
                f"j{order}",
                draw(st.integers(1, 4)),
                nodes=draw(st.integers(1, 2)),
                kind=draw(st.sampled_from(["npu", "npu", "npu", "cpu"])),
                user=draw(users),
                order=order,
                priority=draw(st.sampled_from([100, 100, 200])),
                limit=draw(st.none() | st.integers(1, 12).map(float)),
            )
        )
    return Scene(tuple(line), pool, tuple(running), draw(st.none() | st.integers(1, 12)))


@st.composite
def crowded_scenes(draw: st.DrawFn) -> Scene:
    """A head that waits for nodes which come free at few moments, and small jobs behind it."""
    names = ("n0", "n1", "n2")
    running = [
        holding(
            f"r{node}",
            *((node, card) for card in range(draw(st.integers(1, 4)))),
            ends_by=draw(st.sampled_from([105.0, 105.0, 110.0, None])),
        )
        for node in names
    ]
    head = job("head", draw(st.integers(3, 4)), nodes=draw(st.integers(1, 2)), user="bob")
    behind = [
        job(
            f"j{order}",
            draw(st.integers(1, 3)),
            nodes=draw(st.integers(1, 2)),
            order=order,
            limit=draw(st.sampled_from([None, 5.0, 6.0, 20.0])),
        )
        for order in range(1, draw(st.integers(3, 6)))
    ]
    return Scene((head, *behind), {"npu": dict.fromkeys(names, range(4))}, tuple(running), None)


# The rules, told slowly.


def free_cards(pool: Pool, kind: str, running: Iterable[RunningJob]) -> dict[str, list[int]]:
    taken = {card for other in running if other.kind == kind for card in other.cards}
    return {
        node: [i for i in sorted(ids) if CardRef(node, i) not in taken]
        for node, ids in pool.get(kind, {}).items()
    }


def serving(head: QueuedJob, pool: Pool, running: Iterable[RunningJob]) -> set[str]:
    """Nodes that have enough for the head."""
    free = free_cards(pool, head.kind, running)
    return {node for node, ids in free.items() if len(ids) >= head.count}


def promise(head: QueuedJob, pool: Pool, running: Sequence[RunningJob]) -> float:
    ends = {other.job_id: max(other.ends_by or math.inf, NOW) for other in running}
    for time in sorted(set(ends.values()) - {math.inf}):
        left = [other for other in running if ends[other.job_id] > time]
        if len(serving(head, pool, left)) >= head.nodes:
            return time
    return math.inf


def is_harmless(
    candidate: RunningJob, head: QueuedJob, pool: Pool, running: Sequence[RunningJob]
) -> bool:
    known = promise(head, pool, running)
    if known < math.inf:
        return promise(head, pool, [*running, candidate]) <= known
    futures = chain.from_iterable(combinations(running, left) for left in range(len(running) + 1))
    return all(
        serving(head, pool, left) == serving(head, pool, [*left, candidate]) for left in futures
    )


def allowed(
    waiting: QueuedJob, head: QueuedJob | None, pool: Pool, running: Sequence[RunningJob]
) -> Iterator[tuple[str, ...]]:
    """Every set of nodes on which the job may start."""
    free = free_cards(pool, waiting.kind, running)
    able = sorted(node for node, ids in free.items() if len(ids) >= waiting.count)
    for nodes in combinations(able, waiting.nodes):
        cards = tuple(CardRef(node, i) for node in nodes for i in free[node][: waiting.count])
        if head is None or is_harmless(started(waiting, cards), head, pool, running):
            yield nodes


def nodes_of(start: Start) -> tuple[str, ...]:
    return tuple(sorted({card.node for card in start.cards}))


@many
@given(scenes() | crowded_scenes())
def test_a_job_starts_exactly_when_the_rules_told_slowly_allow_it(scene: Scene) -> None:
    starts = {start.job_id: start for start in scene.starts()}
    running = list(scene.running)
    used = Counter[str]()
    for other in running:
        used[other.user] += len(other.cards)
    limit = math.inf if scene.user_limit is None else scene.user_limit
    heads: dict[str, QueuedJob] = {}
    waits_for_limit: set[str] = set()
    for waiting in scene.queue:
        start = starts.get(waiting.job_id)
        if waiting.needs > limit or not any(allowed(waiting, None, scene.pool, [])):
            assert start is None
            continue
        if waiting.user in waits_for_limit or used[waiting.user] + waiting.needs > limit:
            assert start is None
            waits_for_limit.add(waiting.user)
            continue
        placements = list(allowed(waiting, heads.get(waiting.kind), scene.pool, running))
        assert (start is not None) == bool(placements)
        if start is not None:
            assert nodes_of(start) in placements
            running.append(started(waiting, start.cards))
            used[waiting.user] += waiting.needs
        elif waiting.kind not in heads:
            heads[waiting.kind] = waiting
            used[waiting.user] += waiting.needs


@many
@given(scenes())
def test_cards_are_there_free_and_given_once_and_gangs_are_whole(scene: Scene) -> None:
    starts = scene.starts()
    jobs = {waiting.job_id: waiting for waiting in scene.queue}
    assert len({start.job_id for start in starts}) == len(starts)
    for kind, nodes in scene.pool.items():
        given_out = [
            card for start in starts if jobs[start.job_id].kind == kind for card in start.cards
        ]
        free = free_cards(scene.pool, kind, scene.running)
        assert set(free) == set(nodes)
        assert len(set(given_out)) == len(given_out)
        assert all(card.id in free[card.node] for card in given_out)
    for start in starts:
        counts = Counter(card.node for card in start.cards)
        assert list(counts.values()) == [jobs[start.job_id].count] * jobs[start.job_id].nodes


@many
@given(scenes())
def test_nobody_who_fits_is_passed_over_by_a_later_job_of_the_kind(scene: Scene) -> None:
    scene = replace(scene, user_limit=None)
    later = scene.after(scene.starts())
    possible = [each for each in later.queue if any(allowed(each, None, scene.pool, []))]
    first = {each.kind: each for each in reversed(possible)}
    for each in first.values():
        assert not any(allowed(each, None, scene.pool, later.running))


@many
@given(scenes())
def test_no_user_holds_more_than_the_limit_because_of_a_start(scene: Scene) -> None:
    before, after = Counter[str](), Counter[str]()
    later = scene.after(scene.starts())
    for count, state in ((before, scene), (after, later)):
        for other in state.running:
            count[other.user] += len(other.cards)
    if scene.user_limit is not None:
        assert all(after[user] <= max(scene.user_limit, before[user]) for user in after)


@many
@given(scenes(), st.randoms())
def test_the_same_scene_in_another_order_of_cards_decides_the_same(
    scene: Scene, dice: Random
) -> None:
    def shuffled(items: Iterable[T]) -> list[T]:
        items = list(items)
        dice.shuffle(items)
        return items

    pool = {
        kind: dict(shuffled((node, tuple(shuffled(ids))) for node, ids in nodes.items()))
        for kind, nodes in shuffled(scene.pool.items())
    }
    other = replace(scene, pool=pool, running=tuple(shuffled(scene.running)))
    assert other.starts() == scene.starts()


@many
@given(scenes() | crowded_scenes())
def test_a_second_look_at_the_same_moment_starts_nothing(scene: Scene) -> None:
    assert scene.after(scene.starts()).starts() == []


def npu(**nodes: int) -> Pool:
    return {"npu": {node: range(count) for node, count in nodes.items()}}


def ids_started(
    queue: Iterable[QueuedJob],
    pool: Pool,
    running: Iterable[RunningJob] = (),
    user_limit: int | None = None,
) -> list[str]:
    starts = decide(queue, pool, running, now=NOW, user_limit=user_limit).starts
    return [start.job_id for start in starts]


def test_the_tightest_node_is_chosen_so_that_large_holes_stay() -> None:
    [start] = decide([job("a", 2)], npu(big=8, small=2), [], now=NOW, user_limit=None).starts
    assert nodes_of(start) == ("small",)


@pytest.mark.parametrize(
    ("limit", "node"),
    # Beside jobs that last as long; the tightest of those. Nobody knows how long the one on d takes.
    [(5.0, "b"), (60.0, "c"), (1000.0, "d"), (None, "d")],
)
def test_a_node_in_use_is_chosen_that_does_not_come_back_later(
    limit: float | None, node: str
) -> None:
    running = [
        holding("whole", *(("a", card) for card in range(8)), ends_by=NOW + 10),
        holding("soon", *(("b", card) for card in range(6)), ends_by=NOW + 10),
        holding("late", *(("c", card) for card in range(5)), ends_by=NOW + 100),
        holding("open", ("d", 0)),
    ]
    pool = npu(a=8, b=8, c=8, d=8, e=8)
    for behind in ((), (job("head", 8, nodes=4, order=-1),)):
        queue = [*behind, job("one", limit=limit)]
        starts = decide(queue, pool, running, now=NOW, user_limit=None).starts
        assert [nodes_of(start) for start in starts] == [(node,)]


def test_neighbouring_cards_are_preferred_to_lower_ones() -> None:
    running = [holding("r", ("n", 1), ("n", 3))]  # free: 0, 2, 4, 5
    [start] = decide([job("a", 2)], npu(n=6), running, now=NOW, user_limit=None).starts
    assert [card.id for card in start.cards] == [4, 5]


def test_cards_without_neighbours_are_given_lowest_first() -> None:
    running = [holding("r", ("n", 1), ("n", 3))]
    [start] = decide([job("a", 3)], npu(n=6), running, now=NOW, user_limit=None).starts
    assert [card.id for card in start.cards] == [0, 2, 4]


def test_a_blocked_head_of_one_kind_does_not_hold_back_another_kind() -> None:
    pool = {**npu(n=2), "cpu": {"n": range(1)}}
    queue = [job("big", 2), job("small", kind="cpu", order=1)]
    assert ids_started(queue, pool, [holding("r", ("n", 0))]) == ["small"]


def test_a_job_that_can_never_fit_holds_nobody_back() -> None:
    assert ids_started([job("huge", 9), job("small", order=1)], npu(n=8)) == ["small"]


def test_a_short_job_goes_first_and_a_long_one_waits_for_the_head() -> None:
    running = [holding("r", ("n", 0), ends_by=NOW + 60)]
    queue = [job("head", 2), job("long", limit=61, order=1), job("short", limit=60, order=2)]
    assert ids_started(queue, npu(n=2), running) == ["short"]


def test_the_grace_counts_as_part_of_a_time_limit() -> None:
    running = [holding("r", ("n", 0), ends_by=NOW + 60)]
    queue = [job("head", 2), replace(job("short", limit=60, order=1), grace_s=1.0)]
    assert ids_started(queue, npu(n=2), running) == []


def test_a_short_job_on_the_heads_cards_does_not_open_them_to_long_ones() -> None:
    running = [holding("r", ("n", 0), ("n", 1), ends_by=NOW + 60)]
    queue = [job("head", 4), job("short", limit=60, order=1), job("long", order=2)]
    assert ids_started(queue, npu(n=4), running) == ["short"]


def test_of_two_nodes_that_come_free_together_the_head_keeps_one() -> None:
    running = [holding(node, (node, 0), ends_by=NOW + 60) for node in "ab"]
    queue = [job("head", 4), *(job(f"j{order}", 2, order=order) for order in range(1, 4))]
    starts = decide(queue, npu(a=4, b=4), running, now=NOW, user_limit=None).starts
    assert [nodes_of(start) for start in starts] == [("a",)]


def test_a_node_the_head_does_without_is_open_to_all() -> None:
    running = [holding(node, (node, 0), ends_by=NOW + 60) for node in "ab"]
    queue = [job("head", 4), *(job(f"j{order}", 1, order=order) for order in range(1, 6))]
    starts = decide(queue, npu(a=4, b=4), running, now=NOW, user_limit=None).starts
    assert [nodes_of(start) for start in starts] == [("a",)] * 3


def test_behind_a_head_of_unknown_time_only_cards_it_cannot_use_are_given() -> None:
    # The head waits for the five cards of r together; three of the eight are over then, whatever
    # happens. On the other node each card counts.
    running = [
        holding("r", *(("a", card) for card in range(5))),
        holding("s", ("b", 0)),
        holding("t", ("b", 1)),
    ]
    queue = [job("head", 4), *(job(f"j{i}", 1, order=i, limit=1) for i in range(1, 9))]
    starts = decide(queue, npu(a=8, b=4), running, now=NOW, user_limit=None).starts
    assert [nodes_of(start) for start in starts] == [("a",)] * 3


def test_a_user_over_the_limit_waits_with_all_later_jobs_and_others_do_not() -> None:
    running = [holding("r", ("n", 0), ("n", 1), ("n", 2), user="ann")]
    queue = [job("big", 2), job("small", 1, order=1), job("bobs", 1, user="bob", order=2)]
    assert ids_started(queue, npu(n=8), running, user_limit=4) == ["bobs"]


def test_the_room_a_head_needs_under_the_limit_is_not_given_to_its_user() -> None:
    pool = {**npu(n=4), "cpu": {"n": range(4)}}
    running = [holding("r", ("n", 0), user="bob", ends_by=NOW + 50)]
    queue = [job("head", 4), job("slot", kind="cpu", limit=10, order=1)]
    assert ids_started(queue, pool, running, user_limit=4) == []
    assert ids_started(queue, pool, running, user_limit=5) == ["slot"]


def test_a_job_above_the_limit_all_alone_holds_nobody_back() -> None:
    assert ids_started([job("big", 5), job("ok", 4, order=1)], npu(n=8), user_limit=4) == ["ok"]


def test_a_card_that_left_the_pool_is_not_waited_for() -> None:
    gone = holding("r", ("n", 0), ("n", 7), ends_by=NOW + 10)
    assert ids_started([job("a", 2), job("b", 1, order=1)], npu(n=2), [gone]) == []
    assert ids_started([job("a", 1)], npu(n=2), [gone]) == ["a"]
