"""Who has waited long is not overtaken for ever, and does not overtake for ever either."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.jobs.scheduling.records import Pool, QueuedJob, place_of
from jumar.jobs.scheduling.simulation import Fair, Work, simulate
from jumar.jobs.scheduling.turns import FairLine, Shares
from jumar.jobs.scheduling.use import DAY_S, Owner, PastUse

HOUR_S = 3600.0
WEEK_S = 7.0 * DAY_S
EIGHT: Pool = {"npu": {"n": range(8)}}
NOW = 3.0 * DAY_S
many = settings(max_examples=200, deadline=None)


def job(
    order: int, user: str = "ann", count: int = 1, *, since: float | None = 0.0, priority: int = 100
) -> QueuedJob:
    made = QueuedJob(f"j{order}", user, "npu", count, 1, priority, order, HOUR_S)
    return replace(made, since=since, in_line_since=since)


def order_of(
    *jobs: QueuedJob, use: dict[Owner, float] | None = None, head: QueuedJob | None = None
) -> list[QueuedJob]:
    line = FairLine()
    for each in jobs:
        line.add(each)
    heads = {} if head is None else {"npu": head.job_id}
    return list(line.turns(use or {}, Shares(), heads, now=NOW))


@st.composite
def lines(draw: st.DrawFn) -> tuple[list[QueuedJob], dict[Owner, float]]:
    times = sorted(draw(st.lists(st.floats(0, NOW), min_size=1, max_size=20)))
    names = st.sampled_from(["ann", "bob", "cat"])
    jobs = [
        job(
            order,
            draw(names),
            draw(st.integers(1, 8)),
            since=draw(st.sampled_from([time, time, None])),
            priority=draw(st.sampled_from([100, 100, 200])),
        )
        for order, time in enumerate(times)
    ]
    return jobs, {("npu", name): draw(st.floats(0, 1e6)) for name in ("ann", "bob", "cat")}


def is_overdue(each: QueuedJob) -> bool:
    return each.in_line_since is not None and NOW - each.in_line_since >= DAY_S


@many
@given(lines(), st.none() | st.integers(0, 19))
def test_nobody_is_lost_and_own_jobs_keep_their_order(
    scene: tuple[list[QueuedJob], dict[Owner, float]], number: int | None
) -> None:
    jobs, use = scene
    head = None if number is None else jobs[number % len(jobs)]
    order = order_of(*jobs, use=use, head=head)
    assert sorted(each.order for each in order) == [each.order for each in jobs]
    assert head is None or order[0] is head
    for user in ("ann", "bob", "cat"):
        own = [each for each in order if each.user == user and each is not head]
        assert own == sorted(own, key=place_of)


@many
@given(lines(), st.none() | st.integers(0, 19))
def test_ahead_of_the_overdue_are_only_earlier_ones_the_head_and_one_by_use(
    scene: tuple[list[QueuedJob], dict[Owner, float]], number: int | None
) -> None:
    jobs, use = scene
    jobs = [replace(each, priority=100) for each in jobs]
    head = None if number is None else jobs[number % len(jobs)]
    # Own jobs of which nobody knows since when stand where they stand, and theirs behind them.
    unknown = {each.user for each in jobs if each.in_line_since is None}
    order = order_of(*jobs, use=use, head=head)
    for place, each in enumerate(order):
        if each.user in unknown or not is_overdue(each):
            continue
        own = [o for o in jobs if o.user == each.user and o.order < each.order]
        if not all(is_overdue(other) for other in own):
            continue
        ahead = [other for other in order[:place] if other is not head]
        later = [o for o in ahead if o.order > each.order or not is_overdue(o)]
        assert len(later) <= 1
        assert not later or head is not None


def test_a_wide_job_of_who_uses_much_starts_in_an_endless_stream_of_newcomers() -> None:
    # Five of eight cards are busy at any time, with jobs of people who have used nothing.
    arrivals = [
        (time * 720.0, job(time, f"new{time}", since=time * 720.0)) for time in range(72 * 5)
    ]
    wide = job(9999, "zoe", 8, since=60.0)
    fair = Fair(PastUse(WEEK_S))
    fair.past.add(("npu", "zoe"), 8, -WEEK_S, 0.0)
    moments = simulate(
        [*arrivals, (60.0, wide)],
        EIGHT,
        now=0.0,
        user_limit=None,
        work=Work(lambda _: HOUR_S),
        line=fair,
    )
    start = next(m.now for m in moments if any(s.job_id == "j9999" for s in m.starts))
    assert start <= DAY_S + 2 * HOUR_S


def test_a_newcomer_does_not_wait_for_a_thousand_that_are_overdue() -> None:
    thousand = [(0.0, job(order, "ann")) for order in range(1000)]
    comes = 2.0 * DAY_S + 1.0
    fair = Fair(PastUse(WEEK_S))
    moments = simulate(
        [*thousand, (comes, job(1000, "bob", since=comes))],
        EIGHT,
        now=0.0,
        user_limit=None,
        work=Work(lambda each: HOUR_S - each.order % 8),
        line=fair,
    )
    start = next(m.now for m in moments if any(s.job_id == "j1000" for s in m.starts))
    # Three more cards: the head's, one that is overdue, and one by use.
    assert start <= comes + HOUR_S


def test_an_old_job_does_not_bring_new_ones_of_its_user_to_the_front() -> None:
    old, new = job(0, "ann"), job(2, "ann", since=NOW, priority=200)
    other = job(1, "bob", since=NOW)
    use = {("npu", "ann"): 9e9}
    assert order_of(old, new, other, use=use) == [other, new, old]
    assert order_of(old, other, use=use) == [old, other]
