"""Whose turn it is: by what everybody has used, and never for ever somebody else's."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.jobs.scheduling.test_whole_runs import Workload, workloads

from jumar.jobs.scheduling.forecast import explain
from jumar.jobs.scheduling.larger import LargerFirst
from jumar.jobs.scheduling.records import place_of
from jumar.jobs.scheduling.schedule import (
    CardRef,
    Holdings,
    Pass,
    Pool,
    QueuedJob,
    RunningJob,
    Start,
    decide,
)
from jumar.jobs.scheduling.simulation import Fair, Moment, Work, simulate
from jumar.jobs.scheduling.turns import DEFAULT_GROUP, FairLine, Member, Shares, Turns
from jumar.jobs.scheduling.use import DAY_S, EXPECTED_S, Owner, PastUse, use_now

HOUR_S = 3600.0
WEEK_S = 7.0 * DAY_S
EIGHT: Pool = {"npu": {"n": range(8)}}
many = settings(max_examples=200, deadline=None)


def job(
    order: int,
    user: str = "ann",
    count: int = 1,
    *,
    kind: str = "npu",
    priority: int = 100,
    rank: int = 100,
    limit: float | None = None,
) -> QueuedJob:
    return QueuedJob(f"j{order}", user, kind, count, 1, priority, order, limit, rank=rank)


def in_turn(
    *jobs: QueuedJob,
    use: dict[Owner, float] | None = None,
    shares: Shares | None = None,
    can_ever_start: Callable[[QueuedJob], bool] = lambda job: True,
) -> list[QueuedJob]:
    line = FairLine(can_ever_start)
    for each in jobs:
        line.add(each)
    return list(line.turns(use or {}, shares or Shares()))


def users(jobs: list[QueuedJob]) -> str:
    return "".join(each.user[0] for each in jobs)


@st.composite
def lines(draw: st.DrawFn) -> tuple[list[QueuedJob], dict[Owner, float], Shares]:
    names = ["ann", "bob", "cat", "dan"]
    jobs = [
        job(
            order,
            draw(st.sampled_from(names)),
            draw(st.integers(1, 4)),
            kind=draw(st.sampled_from(["npu", "npu", "cpu"])),
            priority=draw(st.sampled_from([50, 100, 1000])),
            rank=draw(st.sampled_from([100, 100, 100, 1, 500])),
            limit=draw(st.none() | st.floats(1, 1e5)),
        )
        for order in range(draw(st.integers(1, 20)))
    ]
    use = {(kind, name): draw(st.floats(0, 1e6)) for name in names for kind in ("npu", "cpu")}
    share = st.sampled_from([0.5, 1.0, 3.0])
    group = st.sampled_from([DEFAULT_GROUP, "vision"])
    shares = Shares(
        {DEFAULT_GROUP: draw(share), "vision": draw(share)},
        {name: Member(draw(group), draw(share)) for name in names},
    )
    return jobs, use, shares


@many
@given(lines())
def test_everybody_has_a_turn_and_own_jobs_keep_their_order(
    scene: tuple[list[QueuedJob], dict[Owner, float], Shares],
) -> None:
    jobs, use, shares = scene
    order = in_turn(*jobs, use=use, shares=shares)
    assert sorted(each.order for each in order) == sorted(each.order for each in jobs)
    assert [each.rank for each in order] == sorted((each.rank for each in jobs), reverse=True)
    own: dict[tuple[str, str, int], list[QueuedJob]] = {}
    for each in order:
        own.setdefault((each.kind, each.user, each.rank), []).append(each)
    for each in own.values():
        assert each == sorted(each, key=place_of)


@many
@given(lines(), st.integers(0, 19))
def test_the_head_stays_the_first_of_its_rank_and_nobody_is_lost(
    scene: tuple[list[QueuedJob], dict[Owner, float], Shares], number: int
) -> None:
    jobs, use, shares = scene
    head = jobs[number % len(jobs)]
    line = FairLine()
    for each in jobs:
        line.add(each)
    order = list(line.turns(use, shares, {head.kind: head.job_id, "gpu": "gone"}))
    assert sorted(each.order for each in order) == sorted(each.order for each in jobs)
    assert [each.rank for each in order] == sorted((each.rank for each in jobs), reverse=True)
    mine = [each for each in order if (each.kind, each.rank) == (head.kind, head.rank)]
    assert mine[0] == head


@many
@given(lines(), st.integers(0, 20))
def test_after_some_have_started_the_others_stand_as_they_stood(
    scene: tuple[list[QueuedJob], dict[Owner, float], Shares], number: int
) -> None:
    # Ranks look at all of a rank before the next; one rank is what a second look is about.
    jobs, use, shares = scene
    jobs = [replace(each, rank=100, kind="npu") for each in jobs]
    order = in_turn(*jobs, use=use, shares=shares)
    fair = Fair(PastUse(WEEK_S), shares)
    for each in jobs:
        fair.add(each)
    pool: Pool = {"npu": {f"n{node}": range(4) for node in range(number)}}
    starts = decide(order[:number], pool, [], now=0.0, user_limit=None).starts
    for start in starts:
        fair.start(start, 0.0)
    after = fair.use.now(0.0)
    for owner, used in use.items():
        after[owner] = after.get(owner, 0.0) + used
    begun = {start.job_id for start in starts}
    left = [each for each in order if each.job_id not in begun]
    again = list(fair.line.turns(after, shares))
    # Sums in another order differ in the last digit: only who stands equal may change places.
    assert again == left or _nearly_tied(again, left, after, shares)


def _nearly_tied(
    again: list[QueuedJob], left: list[QueuedJob], use: dict[Owner, float], shares: Shares
) -> bool:
    for one, other in zip(again, left, strict=True):
        if one != other:
            keys = [
                use.get((each.kind, each.user), 0.0) / shares.member(each.user).share
                for each in (one, other)
            ]
            return shares.member(one.user) != shares.member(other.user) or math.isclose(*keys)
    return True


def test_one_job_does_not_wait_for_a_thousand_of_somebody_else() -> None:
    thousand = [job(order, "ann") for order in range(1000)]
    fair = Fair(PastUse(WEEK_S))
    late = (60.0, job(1000, "bob"))
    moments = simulate(
        [*((0.0, each) for each in thousand), late],
        EIGHT,
        now=0.0,
        user_limit=None,
        work=Work(lambda each: HOUR_S + each.order % 8),
        line=fair,
    )
    ends = sorted(HOUR_S + order for order in range(8))
    start = next(m.now for m in moments if any(s.job_id == "j1000" for s in m.starts))
    assert start == ends[0]


def test_free_cards_are_dealt_out_among_all_who_wait_at_once() -> None:
    order = in_turn(*(job(n, "ann") for n in range(8)), *(job(n, "bob") for n in range(8, 16)))
    starts = decide(order, EIGHT, [], now=0.0, user_limit=None).starts
    by_user = Counter("ann" if int(start.job_id[1:]) < 8 else "bob" for start in starts)
    assert by_user == {"ann": 4, "bob": 4}


def test_who_has_used_less_catches_up_first() -> None:
    jobs = [*(job(n, "ann") for n in range(4)), *(job(n, "bob") for n in range(4, 8))]
    assert users(in_turn(*jobs, use={("npu", "ann"): 2.5 * EXPECTED_S})) == "bbbabaaa"
    assert users(in_turn(*jobs, use={("cpu", "ann"): 9e9})) == "abababab"


def test_a_members_priority_orders_only_the_members_own_jobs() -> None:
    order = in_turn(job(0, "ann"), job(1, "bob"), job(2, "bob", priority=1000))
    assert [each.order for each in order] == [0, 2, 1]


def test_an_administrators_priority_orders_all() -> None:
    first, last = job(2, "bob", priority=500, rank=500), job(0, "bob", priority=1, rank=1)
    use = {("npu", "bob"): 9e9}
    assert [e.order for e in in_turn(last, job(1, "ann"), first, use=use)] == [2, 1, 0]


def test_groups_share_the_site_and_users_their_group() -> None:
    shares = Shares(
        {"vision": 2.0, DEFAULT_GROUP: 1.0},
        {"ann": Member("vision", 3.0), "bob": Member("vision", 1.0)},
    )
    jobs = [job(n, name) for n, name in enumerate(["ann", "bob", "cat"] * 24)]
    first = Counter(each.user for each in in_turn(*jobs, shares=shares)[:24])
    assert first == {"ann": 12, "bob": 4, "cat": 8}


def test_a_job_that_can_never_start_takes_no_turn() -> None:
    huge = [job(n, "ann", 99) for n in range(100)]
    order = in_turn(
        *huge,
        job(100, "ann"),
        *(job(n, "bob") for n in range(101, 110)),
        can_ever_start=lambda each: each.count <= 8,
    )
    assert order[0].order == 100
    assert [each.count for each in order[-100:]] == [99] * 100


def test_a_waiting_job_says_who_is_ahead_and_why() -> None:
    line = FairLine()
    mine = job(0, "ann", 8)
    for each in (mine, job(1, "bob", 8), job(2, "cat", 8), job(3, "root", 8, rank=500)):
        line.add(each)
    shares = Shares({"vision": 1.0}, {"cat": Member("vision")})
    turns = line.turns({("npu", "ann"): 9e9}, shares)
    holds = decide([job(9, "dan", 8)], EIGHT, [], now=0.0, user_limit=None).starts[0]
    running = Fair(PastUse(WEEK_S))
    running.add(job(9, "dan", 8))
    running.start(holds, 0.0)
    waiting = explain(
        mine, turns, EIGHT, running.running.values(), now=0.0, user_limit=None, shares=shares
    )
    assert waiting.text == (
        "0 of 8 npu cards are free, needs 8; fourth in line; an administrator put 1 job ahead;"
        " bob and group vision have used less and are ahead"
    )
    assert (waiting.users_ahead, waiting.groups_ahead) == (("bob",), ("vision",))
    assert (waiting.put_ahead, waiting.place_in_line) == (1, 4)


def test_a_job_behind_others_of_its_user_or_put_last_says_so() -> None:
    line = FairLine()
    second, last = job(1, "ann", 8), job(3, "root", 8, rank=50)
    for each in (job(0, "ann", 8), second, job(2, "bob", 8), last):
        line.add(each)
    turns = line.turns({}, Shares())
    words = [
        explain(each, turns, EIGHT, [], now=0.0, user_limit=None, shares=Shares()).text
        for each in (second, last)
    ]
    assert words[0].endswith("bob is ahead by fair turns")
    assert words[1].endswith("an administrator put it behind all others")


def test_a_limit_of_running_jobs_is_told() -> None:
    mine = [job(0), job(1), job(2)]
    waiting = explain(mine[1], mine, EIGHT, [], now=0.0, user_limit=None, running_limit=1)
    assert (waiting.cause, waiting.text) == ("limit", "over the limit of 1 running jobs per user")
    waiting = explain(mine[2], mine, EIGHT, [], now=0.0, user_limit=None, running_limit=1)
    assert waiting.text.startswith("behind job j1 of the same user, which is over the limit of 1")


# Whole runs, in the order of turns.


@dataclass(slots=True)
class Watched(Fair):
    """Remembers the order of the last pass, and what everybody had used before it."""

    seen: list[QueuedJob] = field(default_factory=list[QueuedJob])
    used: dict[Owner, float] = field(default_factory=dict[Owner, float])

    def order(self, now: float) -> list[QueuedJob]:
        self.used = use_now(self.past, self.running.values(), now)
        self.seen = list(self.line.turns(self.used, self.shares))
        return self.seen

    def ahead_of(self, job: QueuedJob) -> list[QueuedJob]:
        kind = [each for each in self.seen if each.kind == job.kind]
        return kind[: kind.index(job)]


def fair_moments(
    load: Workload, running_limit: int | None = None
) -> Iterator[tuple[Moment, Watched]]:
    fair = Watched(PastUse(WEEK_S))
    for moment in simulate(
        load.arrivals,
        load.pool,
        now=0.0,
        user_limit=load.user_limit,
        running_limit=running_limit,
        work=Work(load.really),
        line=fair,
    ):
        yield moment, fair


@many
@given(workloads(limits=False))
def test_every_job_of_a_finite_workload_has_its_turn(load: Workload) -> None:
    started = [start.job_id for moment, _ in fair_moments(load) for start in moment.starts]
    assert sorted(started) == sorted(load.jobs)


@many
@given(workloads(limits=False), st.none() | st.integers(1, 3))
def test_limits_hold_at_every_moment(load: Workload, running_limit: int | None) -> None:
    for _, fair in fair_moments(load, running_limit):
        devices, jobs = Counter[str](), Counter[str]()
        for each in fair.running.values():
            devices[each.user] += len(each.cards)
            jobs[each.user] += 1
        assert max(devices.values(), default=0) <= (load.user_limit or math.inf)
        assert max(jobs.values(), default=0) <= (running_limit or math.inf)


@many
@given(workloads(limits=False))
def test_a_head_is_delayed_only_by_who_is_ahead_of_it_in_turn(load: Workload) -> None:
    promised: dict[str, tuple[QueuedJob, float]] = {}
    for moment, fair in fair_moments(replace(load, user_limit=None)):
        started = {start.job_id for start in moment.starts}
        decided = moment.decided
        for kind, (head, at) in list(promised.items()):
            ahead = fair.ahead_of(head)
            for other in ahead[:1]:
                # By what right: its user's own priority, or use that is no more.
                used, head_used = (fair.used.get((kind, u), 0.0) for u in (other.user, head.user))
                assert other.user == head.user or used <= head_used
            if any(each.job_id in started or each is decided.heads.get(kind) for each in ahead):
                del promised[kind]
            elif head.job_id in started:
                assert moment.now <= at
                del promised[kind]
            else:
                assert moment.now < at
        for kind, head in decided.heads.items():
            found = decided.reservation(kind).at
            at = math.inf if found is None else found
            assert at <= promised.get(kind, (head, math.inf))[1]
            promised[kind] = (head, at)


def test_a_large_job_starts_in_an_endless_stream_of_small_ones_of_others() -> None:
    # Somebody else's jobs hold five of eight cards at any time, so eight are never free by chance.
    stream = [(float(time), job(time, f"user{time % 3}", limit=10.0)) for time in range(0, 4000, 2)]
    big = job(9999, "zoe", 8)
    fair = Fair(PastUse(WEEK_S))
    fair.past.add(("npu", "zoe"), 1, -500.0, 0.0)
    moments = simulate(
        [*stream, (51.0, big)],
        EIGHT,
        now=0.0,
        user_limit=None,
        work=Work(lambda _: 10.0),
        line=fair,
    )
    start = next(m.now for m in moments if any(s.job_id == "j9999" for s in m.starts))
    # Three others may use as much as she had, on five cards, before she is the head.
    assert start <= 51.0 + 3 * 500 / 5 + 60


def constant_demand(
    wants: dict[str, int], days: float, *, most: float
) -> list[tuple[float, QueuedJob]]:
    """From the first moment on, as many jobs as take that part of all card-hours."""
    arrivals: list[tuple[float, QueuedJob]] = []
    for user, count in wants.items():
        for _ in range(int(most * days * 24 * 8 / 3 / count) + 1):
            arrivals.append((0.0, job(len(arrivals), user, count)))
    return arrivals


def one_to_five_hours(each: QueuedJob) -> float:
    return HOUR_S * (1 + each.order * 7 % 5)


def used_by(
    arrivals: list[tuple[float, QueuedJob]], shares: Shares, days: float
) -> dict[str, float]:
    """The part of all card-seconds that each user had by then."""
    fair = Fair(PastUse(WEEK_S), shares)
    used: dict[str, float] = {}
    jobs = {each.job_id: each for _, each in arrivals}
    for moment in simulate(
        arrivals, EIGHT, now=0.0, user_limit=None, work=Work(one_to_five_hours), line=fair
    ):
        if moment.now >= days * DAY_S:
            break
        for start in moment.starts:
            each = jobs[start.job_id]
            used[each.user] = used.get(each.user, 0.0) + each.count * one_to_five_hours(each)
    total = sum(used.values())
    return {user: card_s / total for user, card_s in used.items()}


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=2, max_size=4))
def test_shares_converge_under_constant_demand(wanted: list[float]) -> None:
    names = [f"user{number}" for number in range(len(wanted))]
    shares = Shares(members={n: Member(share=s) for n, s in zip(names, wanted, strict=True)})
    arrivals = constant_demand(dict.fromkeys(names, 1), 3, most=1.0)
    had = used_by(arrivals, shares, 3)
    for name, share in zip(names, wanted, strict=True):
        assert had[name] == pytest.approx(share / sum(wanted), abs=0.04)


def test_a_week_of_twelve_users_gives_each_their_share() -> None:
    # Two groups, 2 to 1, of six users each; one of each group has a double share. They ask for
    # jobs of 1, 2 and 4 cards that take 1 to 5 hours, more than the week has room for.
    names = [f"user{number:02}" for number in range(12)]
    shares = Shares(
        {"vision": 2.0, "speech": 1.0},
        {
            name: Member("vision" if number < 6 else "speech", 2.0 if number % 6 == 0 else 1.0)
            for number, name in enumerate(names)
        },
    )
    wants = {name: (1, 2, 4)[number % 3] for number, name in enumerate(names)}
    arrivals = constant_demand(wants, 7, most=0.4)
    had = used_by(arrivals, shares, 7)
    for number, name in enumerate(names):
        group = 2 / 3 if number < 6 else 1 / 3
        entitled = group * (2 if number % 6 == 0 else 1) / 7
        assert had[name] == pytest.approx(entitled, abs=0.02), had


def test_a_preemptible_job_starts_in_an_endless_stream_of_others() -> None:
    """One card, wanted without a break by people who do not give way."""
    stream = [
        (hour * HOUR_S, replace(job(hour, f"user{hour % 5}", limit=HOUR_S), since=hour * HOUR_S))
        for hour in range(72)
    ]
    patient = [
        (60.0, replace(job(100 + n, user), preemptible=True, since=60.0, time_limit_s=HOUR_S))
        for n, user in enumerate(("pat", "pat", "zoe"))
    ]
    moments = simulate(
        [*stream, *patient],
        {"npu": {"n": range(1)}},
        now=0.0,
        user_limit=None,
        line=Fair(PastUse(WEEK_S)),
    )
    starts = {start.job_id: moment.now for moment in moments for start in moment.starts}
    first = min(starts[f"j{100 + n}"] for n in range(3))
    assert DAY_S <= first <= DAY_S + 3 * HOUR_S
    # One after the other, and each user's in that user's order.
    assert starts["j100"] < starts["j101"] < 72 * HOUR_S
    assert starts["j102"] < 72 * HOUR_S


def all_asked(decided: Pass, turns: Turns) -> list[Start]:
    """What a pass starts that goes through the whole line."""
    starts: list[Start] = []
    line = LargerFirst(decided, turns)
    while (job := line.next(decided.fitting(turns.shapes))) is not None:
        outcome = decided.offer(job)
        if isinstance(outcome, Start):
            starts.append(outcome)
            line.changed()
    return starts


@many
@given(workloads(limits=False), st.sets(st.integers(0, 13)), st.sets(st.integers(0, 13)))
def test_where_nobody_fits_any_more_nobody_else_is_asked(
    workload: Workload, come: set[int], gives_way: set[int]
) -> None:
    jobs = [replace(job, preemptible=job.order in gives_way) for _, job in workload.arrivals]
    line = FairLine()
    running: list[RunningJob] = []
    # Some begin on free cards, the others come later.
    for some in ([one for one in jobs if one.order not in come], jobs):
        held = {run.job_id for run in running}
        for one in some:
            if one.job_id not in held:
                line.add(one)
        turns = line.turns({}, Shares())
        limit = workload.user_limit
        decided = decide(turns, workload.pool, running, now=0.0, user_limit=limit)
        slowly = Pass(Holdings(workload.pool, running, user_limit=limit), 0.0, running)
        assert decided.starts == all_asked(slowly, turns)
        assert decided.preempted == slowly.preempted
        for start in decided.starts:
            job = line.remove(start.job_id)
            ends_by = job.longest_s
            running.append(
                RunningJob(
                    *(job.job_id, job.user, job.kind, start.cards, ends_by),
                    preemptible=job.preemptible,
                    grace_s=1.0,
                    saved_at=0.0,
                )
            )
    assert line.turns({}, Shares()).shapes == {one.shape for one in line.turns({}, Shares())}


TWO: Pool = {"npu": {"m": range(8), "n": range(8)}}
HALF_OF_M = RunningJob("r", "zoe", "npu", tuple(CardRef("m", n) for n in range(4)), ends_by=7200.0)


def started(*jobs: QueuedJob) -> dict[str, str]:
    """Behind a head that needs both nodes: who starts, and on which node."""
    line = FairLine()
    for one in (replace(job(0, "zoe", 8), nodes=2), *jobs):
        line.add(one)
    turns = line.turns({}, Shares(), {"npu": "j0"})
    decided = decide(turns, TWO, [HALF_OF_M], now=0.0, user_limit=None)
    return {start.job_id: start.cards[0].node for start in decided.starts}


# More than there are cards beside the other job, and they end before the head's time.
SMALL = [job(n, f"u{n}", limit=HOUR_S * 1.5) for n in range(1, 7)]
BESIDE = dict.fromkeys(("j1", "j2", "j3", "j4"), "m")


def test_behind_the_head_a_hole_goes_to_the_largest_that_fits() -> None:
    assert started(*SMALL) == {**BESIDE, "j5": "n", "j6": "n"}
    assert started(*SMALL, job(9, "bob", 8, limit=HOUR_S)) == {**BESIDE, "j9": "n"}


def test_no_card_stays_free_for_a_larger_job_that_may_not_start() -> None:
    # It would outlast what is kept for the head.
    assert started(*SMALL, job(9, "bob", 8)) == {**BESIDE, "j5": "n", "j6": "n"}
