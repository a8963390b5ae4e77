"""Who gives way, held against trying every set of running jobs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.jobs.scheduling import preemption
from jumar.jobs.scheduling.preemption import victims
from jumar.jobs.scheduling.records import SPARED_S, QueuedJob, RunningJob
from jumar.spec.devices import CardRef

NOW = 1000.0
CARDS = 4
many = settings(max_examples=200, deadline=None)
Free = dict[str, int]


def head(count: int, nodes: int = 1, *, preemptible: bool = False) -> QueuedJob:
    return QueuedJob("head", "ann", "npu", count, nodes, 100, 0, None, preemptible=preemptible)


def holder(
    name: str, cards: dict[str, int], *, since: float = 0.0, kind: str = "npu"
) -> RunningJob:
    held = tuple(CardRef(node, i) for node, count in cards.items() for i in range(count))
    return RunningJob(name, "bob", kind, held, None, since, preemptible=True)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[QueuedJob, Free, list[RunningJob]]:
    """Nodes full of jobs on one node or several; most may be preempted."""
    room = {f"n{n}": CARDS for n in range(draw(st.integers(1, 4)))}
    running: list[RunningJob] = []
    for number in range(draw(st.integers(0, 9))):
        nodes = draw(st.lists(st.sampled_from(sorted(room)), min_size=1, max_size=3, unique=True))
        count = min(draw(st.integers(1, 3)), *(room[node] for node in nodes))
        if not count:
            continue
        for node in nodes:
            room[node] -= count
        made = holder(f"r{number}", dict.fromkeys(nodes, count))
        running.append(
            replace(
                made,
                kind=draw(st.sampled_from(["npu"] * 9 + ["gpu"])),
                since=draw(st.sampled_from([0.0, 400.0, 900.0])),
                saved_at=draw(st.sampled_from([None, None, 300.0, 950.0])),
                preemptible=draw(st.sampled_from([True] * 5 + [False])),
                preemptions=draw(st.sampled_from([0, 0, 0, 1, 1, 2])),
                leaves=draw(st.sampled_from([False] * 5 + [True])),
            )
        )
    wants = head(draw(st.integers(1, CARDS)), draw(st.integers(1, len(room))))
    for job in running:
        if job.kind != "npu":
            for card in job.cards:
                room[card.node] += 1
    return wants, room, running


def fits(wants: QueuedJob, free: Free, gone: Iterable[RunningJob]) -> bool:
    have = dict(free)
    for job in gone:
        for card in job.cards:
            have[card.node] += job.kind == wants.kind
    return sum(count >= wants.count for count in have.values()) >= wants.nodes


def may_be_asked(job: RunningJob, wants: QueuedJob) -> bool:
    wrote_since = job.saved_at is not None and job.saved_at > (job.since or 0.0)
    kept_s = {1: 600.0, 2: 1200.0}.get(job.preemptions, 0.0)
    return (
        job.kind == wants.kind
        and job.preemptible
        and not job.leaves
        and (wrote_since or not job.preemptions or NOW - (job.since or 0.0) >= kept_s)
    )


def loss(jobs: Iterable[RunningJob]) -> float:
    return sum(len(j.cards) * (NOW - max(j.since or 0.0, j.saved_at or 0.0)) for j in jobs)


def cheapest(
    wants: QueuedJob, free: Free, running: Sequence[RunningJob]
) -> tuple[int, float] | None:
    """Every set there is; None: not even all of them suffice."""
    leaving = [job for job in running if job.leaves]
    able = [job for job in running if may_be_asked(job, wants)]
    for size in range(len(able) + 1):
        good = [c for c in combinations(able, size) if fits(wants, free, [*leaving, *c])]
        if good:
            return size, min(map(loss, good))
    return None


@many
@given(scenes())
def test_the_fewest_give_way_and_of_those_the_ones_that_lose_least(
    scene: tuple[QueuedJob, Free, list[RunningJob]],
) -> None:
    wants, free, running = scene
    chosen = [job for job in running if job.job_id in victims(wants, free, running, NOW)]
    best = cheapest(wants, free, running)
    assert all(may_be_asked(job, wants) for job in chosen)
    assert (len(chosen), loss(chosen)) == (best or (0, 0.0))


@many
@given(scenes())
def test_with_no_effort_left_none_gives_way_for_nothing(
    scene: tuple[QueuedJob, Free, list[RunningJob]],
) -> None:
    wants, free, running = scene
    effort, preemption._MOST_LOOKS = preemption._MOST_LOOKS, 0  # pyright: ignore[reportPrivateUsage, reportConstantRedefinition]
    try:
        names = victims(wants, free, running, NOW)
    finally:
        preemption._MOST_LOOKS = effort  # pyright: ignore[reportPrivateUsage, reportConstantRedefinition]
    chosen = [job for job in running if job.job_id in names]
    leaving = [job for job in running if job.leaves]
    assert all(may_be_asked(job, wants) for job in chosen)
    assert bool(chosen) == ((cheapest(wants, free, running) or (0, 0.0))[0] > 0)
    for spared in chosen:
        rest = [job for job in chosen if job is not spared]
        assert not fits(wants, free, [*leaving, *rest])


@many
@given(
    length_s=st.floats(1.0, 1e6),
    starts=st.floats(0.0, 100.0),
    grace_s=st.floats(0.0, 60.0),
    looks_s=st.floats(0.5, 120.0),
)
def test_what_never_saves_ends_while_others_always_want_its_cards_and_they_wait_no_longer_than_it(
    length_s: float, starts: float, grace_s: float, looks_s: float
) -> None:
    """Neither goes on for ever: not the waiting of the urgent, and not the beginning anew."""
    now, lost_s = starts, 0.0
    for preemptions in range(64):
        job = replace(holder("r", {"n0": 4}, since=now), preemptions=preemptions)
        began = now
        until = job.spared_until
        if until is not None:
            assert victims(head(1), {"n0": 0}, [job], until - 0.1) == ()
            now = until + looks_s
        if now >= began + length_s:
            break
        assert victims(head(1), {"n0": 0}, [job], now) == ("r",)
        # Nobody was kept waiting for much longer than it had run for nothing.
        assert now - began <= max(SPARED_S, 2 * lost_s) + looks_s + 1.0
        lost_s += now - began
        now += grace_s
    else:
        raise AssertionError("it is asked to leave again and again")
    assert lost_s <= 2 * length_s + looks_s * 64 + SPARED_S


def test_the_urgent_wait_for_nobody_who_has_saved_since() -> None:
    job = replace(holder("r", {"n0": 4}, since=NOW - 1), preemptions=9)
    assert victims(head(1), {"n0": 0}, [job], NOW) == ()
    assert victims(head(1), {"n0": 0}, [replace(job, saved_at=NOW)], NOW) == ("r",)
    others = [replace(job, job_id="other", preemptions=1, since=NOW - SPARED_S)]
    assert victims(head(1), {"n0": 0}, [job, *others], NOW) == ("other",)


def test_a_preemptible_job_has_nobody_leave() -> None:
    full = [holder("r", {"n0": 4})]
    assert victims(head(1), {"n0": 0}, full, NOW) == ("r",)
    assert victims(head(1, preemptible=True), {"n0": 0}, full, NOW) == ()


def test_one_of_many_alike_is_chosen_on_a_large_site() -> None:
    """Hundreds of gangs tie the nodes together; the search has a limit and the choice is still good."""
    nodes = [f"n{n:04}" for n in range(800)]
    gangs = [
        holder(f"g{n}", dict.fromkeys(nodes[n : n + 4], 4), since=NOW - 1 - n % 7)
        for n in range(0, 800, 4)
    ]
    chosen = victims(head(4, 8), dict.fromkeys(nodes, 0), gangs, NOW)
    assert len(chosen) == 2
    assert loss(job for job in gangs if job.job_id in chosen) == 2 * 16 * 1.0
