"""The line of waiting jobs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.jobs.scheduling.records import Line, place_of
from jumar.jobs.scheduling.schedule import QueuedJob


def job(order: int, priority: int) -> QueuedJob:
    return QueuedJob(f"j{order}", "ann", "npu", 1, 1, priority, order, None)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 3)), unique_by=lambda it: it[0]))
def test_a_line_is_always_sorted_and_knows_each_place(jobs: list[tuple[int, int]]) -> None:
    line = Line()
    waiting = [job(order, priority) for order, priority in jobs]
    for each in waiting:
        line.add(each)
    for each in waiting[::3]:
        line.discard(each.job_id)
    left = sorted((each for i, each in enumerate(waiting) if i % 3), key=place_of)
    assert list(line) == left
    assert [line.position(each.job_id) for each in left] == list(range(1, len(left) + 1))
    assert all(each.job_id in line and line.get(each.job_id) is each for each in left)
    assert len(line) == len(left)


def test_higher_priority_goes_first_then_who_came_first() -> None:
    line = Line()
    for each in (job(2, 100), job(3, 200), job(1, 100)):
        line.add(each)
    assert [each.order for each in line] == [3, 1, 2]


def test_adding_a_job_again_moves_it() -> None:
    line = Line()
    for each in (job(1, 100), job(2, 100), job(2, 200)):
        line.add(each)
    assert [each.job_id for each in line] == ["j2", "j1"]


def test_a_job_that_is_not_there_can_be_discarded_but_not_removed() -> None:
    line = Line()
    line.discard("j1")
    with pytest.raises(KeyError):
        line.remove("j1")
    with pytest.raises(KeyError):
        line.position("j1")


def test_the_line_may_change_while_it_is_gone_through() -> None:
    line = Line()
    for order in range(3):
        line.add(job(order, 100))
    assert [line.remove(each.job_id).order for each in line] == [0, 1, 2]
