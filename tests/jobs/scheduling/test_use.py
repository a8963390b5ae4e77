"""What everybody has used, and how it fades."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.jobs.scheduling.records import RunningJob
from jumar.jobs.scheduling.use import DAY_S, EXPECTED_S, PastUse, RunningUse, by_day, use_now
from jumar.spec.devices import CardRef

ANN = ("npu", "ann")
NOON = 20_000.5 * DAY_S
moments = st.floats(0, 1e10)


def running(since: float, ends_by: float | None = None, cards: int = 1) -> RunningJob:
    held = tuple(CardRef("n", card) for card in range(cards))
    return RunningJob("r", "ann", "npu", held, ends_by, since=since)


def test_use_halves_with_every_half_life() -> None:
    past = PastUse(7.0 * DAY_S)
    past.add(ANN, 2, NOON, NOON + 100)
    for weeks, counts in ((0, 200), (1, 100), (2, 50)):
        assert past.counted(NOON + weeks * 7 * DAY_S)[ANN] == pytest.approx(counts)


def test_a_run_over_midnight_counts_for_both_days() -> None:
    midnight = 20_001.0 * DAY_S
    assert list(by_day(2, midnight - 10, midnight + 5)) == [(20_000, 20.0), (20_001, 10.0)]


@given(moments, moments, st.integers(1, 8))
def test_days_add_up_to_the_run_and_nothing_is_negative(
    since: float, until: float, cards: int
) -> None:
    until = min(until, since + 400 * DAY_S)
    used = [card_s for _, card_s in by_day(cards, since, until)]
    assert all(card_s > 0 for card_s in used)
    assert sum(used) == pytest.approx(cards * max(0.0, until - since), abs=1e-3)


def test_a_clock_set_back_makes_nothing_negative_and_nothing_larger() -> None:
    past = PastUse(7.0 * DAY_S)
    past.add(ANN, 1, NOON, NOON + 100)
    past.add(ANN, 1, NOON, NOON - 3600)
    assert past.counted(NOON - 30 * DAY_S)[ANN] == pytest.approx(100)
    began_later = use_now(PastUse(7.0 * DAY_S), [running(since=NOON + 3600)], NOON)
    assert began_later[ANN] == EXPECTED_S


def test_a_running_job_counts_what_it_is_expected_to_take_then_what_it_took() -> None:
    past = PastUse(7.0 * DAY_S)
    assert use_now(past, [running(NOON, cards=2)], NOON)[ANN] == 2 * EXPECTED_S
    assert use_now(past, [running(NOON, ends_by=NOON + 60)], NOON)[ANN] == 60
    assert use_now(past, [running(NOON)], NOON + 2 * EXPECTED_S)[ANN] == 2 * EXPECTED_S


def test_only_the_last_seven_days_are_this_week() -> None:
    past = PastUse(7.0 * DAY_S)
    for days in (0, 6, 7):
        past.add(ANN, 1, NOON - days * DAY_S, NOON - days * DAY_S + 10**days % 97)
    assert past.this_week(ANN, NOON) == pytest.approx(1 + 10**6 % 97)


def test_what_is_added_later_counts_as_if_it_had_been_there() -> None:
    at_once, later = PastUse(7.0 * DAY_S), PastUse(7.0 * DAY_S)
    later.counted(NOON)
    for past in (at_once, later):
        past.add(ANN, 1, NOON - 3 * DAY_S, NOON)
    assert later.counted(NOON)[ANN] == pytest.approx(at_once.counted(NOON)[ANN])


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_use_kept_up_to_date_is_use_counted_anew(data: st.DataObject) -> None:
    past, kept_past = PastUse(DAY_S / 2), PastUse(DAY_S / 2)
    kept, held, now = RunningUse(kept_past), dict[str, RunningJob](), 5.5 * DAY_S
    for number in range(data.draw(st.integers(1, 12))):
        now += data.draw(st.sampled_from([0.0, 60.0, 3600.0, 3599.5, DAY_S / 3, 2.5 * DAY_S]))
        if held and data.draw(st.booleans()):
            job = held.pop(data.draw(st.sampled_from(sorted(held))))
            kept.end(job.job_id, now)
            past.add((job.kind, job.user), len(job.cards), job.since or 0.0, now)
        else:
            cards = tuple(CardRef("n", i) for i in range(data.draw(st.integers(1, 3))))
            limit = data.draw(st.sampled_from([None, 100.0, 3600.0, DAY_S]))
            user = data.draw(st.sampled_from(["ann", "bob"]))
            ends_by = None if limit is None else now + limit
            job = RunningJob(f"r{number}", user, "npu", cards, ends_by, since=now)
            held[job.job_id] = job
            kept.start(job, now)
        known = kept.now(now)
        counted = dict.fromkeys(known, 0.0) | use_now(past, held.values(), now)
        assert known == pytest.approx(counted, abs=1e-3)
