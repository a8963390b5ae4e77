"""Why a job waits, in the words a person reads."""

import time
from dataclasses import replace

import pytest

from jumar.jobs.scheduling.forecast import MOST_AHEAD, explain, local_clock
from jumar.jobs.scheduling.schedule import Pool, QueuedJob, RunningJob
from jumar.spec.causes import Wait
from jumar.spec.devices import CardRef
from jumar.spec.records import Waiting, WaitPart

NOW = 1_000_000.0
EIGHT: Pool = {"npu": {"local": range(8)}}


def job(job_id: str, count: int, order: int = 0, limit: float | None = 600.0) -> QueuedJob:
    return QueuedJob(job_id, "ann", "npu", count, 1, 100, order, limit)


def holding(first: int, count: int, ends_in: float | None, user: str = "bob") -> RunningJob:
    cards = tuple(CardRef("local", first + i) for i in range(count))
    return RunningJob(f"r{first}", user, "npu", cards, ends_in and NOW + ends_in)


def why(
    queue: list[QueuedJob],
    *running: RunningJob,
    pool: Pool = EIGHT,
    user_limit: int | None = None,
) -> Waiting:
    """Of the last job of the line."""
    return explain(
        queue[-1],
        queue,
        pool,
        running,
        now=NOW,
        user_limit=user_limit,
        clock=lambda when, now: f"in {when - now:.0f}s",
    )


def test_too_few_free_cards_says_how_many_place_and_time() -> None:
    queue = [job("a", 4), job("b", 4, 1), job("c", 4, 2)]
    waiting = why(queue, holding(0, 6, 300))
    assert waiting == Waiting(
        text="2 of 8 npu cards are free, needs 4; third in line; expected start in 900s",
        parts=(
            WaitPart(Wait.CARDS, {"free": 2, "total": 8, "kind": "npu", "count": 4}),
            WaitPart(Wait.PLACE, {"place": 3}),
        ),
        place_in_line=3,
        needs=4,
        free=2,
        total=8,
        expected_start=NOW + 900,
    )


def test_a_job_without_a_limit_in_the_way_leaves_the_time_out() -> None:
    waiting = why([job("a", 4)], holding(0, 6, None))
    assert waiting.text == "2 of 8 npu cards are free, needs 4; first in line"
    assert waiting.expected_start is None


def test_cards_kept_for_the_head_say_which_limit_would_help() -> None:
    queue = [job("k7x2", 8), job("b", 1, 1, limit=None)]
    assert why(queue, holding(0, 6, 1530)).text == (
        "free npu cards are kept for job k7x2 at the head of the line; a time limit under 25m would"
        " let this job go first; second in line; expected start in 2130s"
    )


@pytest.mark.parametrize(("minutes", "starts"), [(25, True), (26, False)])
def test_the_limit_it_names_does_let_the_job_go_first(minutes: int, starts: bool) -> None:
    shorter = replace(job("b", 1, 1, limit=minutes * 60.0), grace_s=20.0)
    waiting = why([job("k7x2", 8), shorter], holding(0, 6, 1530))
    assert (waiting.text == "it is next and starts in a moment") == starts


def test_cards_kept_until_an_unknown_time_name_no_limit() -> None:
    queue = [job("k7x2", 8), job("b", 1, 1)]
    assert why(queue, holding(0, 6, None)).text == (
        "free npu cards are kept for job k7x2 at the head of the line; second in line"
    )


def test_over_the_limit_says_what_is_in_use() -> None:
    waiting = why([job("a", 4)], holding(0, 6, 60, user="ann"), pool=two(8, 8), user_limit=8)
    assert waiting.cause == "limit"
    assert waiting.text == (
        "over the limit of 8 devices per user (6 in use), needs 4; expected start in 60s"
    )


def test_behind_an_own_job_over_the_limit_names_that_job() -> None:
    queue = [job("first", 4), job("second", 1, 1)]
    waiting = why(queue, holding(0, 6, None, user="ann"), pool=two(8, 8), user_limit=8)
    assert waiting.text == (
        "behind job first of the same user, which is over the limit of 8 devices per user (6 in use)"
    )


def test_room_kept_under_the_limit_for_an_earlier_job_is_told() -> None:
    queue = [job("head", 8), job("next", 1, 1)]
    assert why(queue, holding(0, 1, None), user_limit=8).text == (
        "over the limit of 8 devices per user (0 in use, 8 kept for an earlier job), needs 1"
    )


def two(first: int, second: int) -> Pool:
    return {"npu": {"local": range(first), "other": range(second)}}


@pytest.mark.parametrize(
    ("asks", "pool", "text"),
    [
        (job("a", 1), {"cpu": {"local": range(2)}}, "this machine has no npu cards"),
        (
            job("a", 1),
            {"cpu": {"a": range(2), "b": range(2)}},
            "none of the 2 nodes has any npu cards",
        ),
        (job("a", 16), EIGHT, "needs 16 npu cards, this machine has 8"),
        (job("a", 16), two(8, 8), "needs 1 node with 16 npu cards, there are 0"),
        (replace(job("a", 8), nodes=3), two(8, 8), "needs 3 nodes with 8 npu cards, there are 2"),
        (
            replace(job("a", 3), kind="cpu"),
            {"cpu": {"x": range(2)}},
            "needs 3 cpu slots, this machine has 2",
        ),
    ],
)
def test_what_can_never_start_says_so(asks: QueuedJob, pool: Pool, text: str) -> None:
    waiting = why([asks], pool=pool)
    assert (waiting.cause, waiting.text) == ("never", f"can never start: {text}")
    assert waiting.expected_start is None


def test_a_job_above_the_limit_all_alone_can_never_start() -> None:
    assert why([job("a", 4)], user_limit=2).text == (
        "can never start: needs 4 devices, over the limit of 2 devices per user"
    )


def test_cards_that_are_free_on_too_few_nodes_are_told_apart() -> None:
    waiting = why([job("a", 6)], holding(0, 4, None), pool=two(8, 4))
    assert waiting.text == (
        "8 of 12 npu cards are free, needs 6; no node has 6 available; first in line"
    )
    gang = replace(job("a", 4), nodes=2)
    waiting = why([gang], holding(0, 1, None), pool=two(4, 8))
    assert waiting.text == (
        "11 of 12 npu cards are free, needs 4 on each of 2 nodes; 1 node has 4 available; first in line"
    )


def test_a_place_past_nine_is_a_number() -> None:
    queue = [job(f"j{order}", 8, order) for order in range(12)]
    assert "; 12th in line; " in why(queue, holding(0, 1, 60)).text


def test_only_jobs_of_the_kind_are_in_the_line() -> None:
    queue = [replace(job("c", 1), kind="cpu"), job("a", 8, 1)]
    assert why(queue, holding(0, 1, 60)).place_in_line == 1


def test_a_job_that_is_not_in_the_line_any_more_is_put_where_it_was() -> None:
    late = job("late", 8, 5)
    told = explain(late, [job("a", 8)], EIGHT, [], now=NOW, user_limit=None)
    assert told.place_in_line == 2


def test_no_forecast_for_a_job_too_far_down_the_line() -> None:
    queue = [job(f"j{order:05}", 8, order) for order in range(MOST_AHEAD + 2)]
    near, far = queue[MOST_AHEAD // 10], queue[-1]
    expected = explain(near, queue, EIGHT, [], now=NOW, user_limit=None).expected_start
    assert expected == NOW + 600.0 * (MOST_AHEAD // 10)
    assert explain(far, queue, EIGHT, [], now=NOW, user_limit=None).expected_start is None


def test_the_clock_gives_the_date_unless_it_is_today() -> None:
    noon = time.mktime((2026, 3, 5, 12, 0, 0, 0, 0, -1))
    assert local_clock(noon + 8400, noon) == "14:20"
    assert local_clock(noon + 86400, noon) == "2026-03-06 12:00"
