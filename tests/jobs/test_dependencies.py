"""Jobs after jobs, and arrays: on an engine in memory, with servers that are started again."""

from collections.abc import Generator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.jobs.conftest import Platform

from jumar.errors import Conflict, JobNotFound, KeyReused, TooManyJobs
from jumar.jobs.submitting import Limits
from jumar.spec.array import MOST_ELEMENTS, JobArray
from jumar.spec.causes import Cause
from jumar.spec.job import JobSpec
from jumar.spec.records import JobSummary
from jumar.spec.states import AttemptState, JobState

S, A = JobState, AttemptState


@pytest.fixture
def platform(database_url: str, tmp_path: Path) -> Generator[Platform]:
    made = Platform(database_url, tmp_path)
    yield made
    made.service.close()


def of_array(platform: Platform, first: str) -> list[JobSummary]:
    array_id = platform.service.glance(first).array_id
    page = platform.service.page(limit=1000)
    return sorted(
        (job for job in page.jobs if job.array_id == array_id), key=lambda job: job.array_index or 0
    )


def test_a_job_starts_when_all_that_it_waits_for_have_succeeded(platform: Platform) -> None:
    first, second = platform.submit(), platform.submit()
    after = platform.submit(after=[first, f"any:{second}"])
    waiting = platform.service.get(after).waiting
    assert waiting is not None
    assert waiting.text == f"waits for {first} to succeed; waits for {second} to end"
    platform.wait(first, S.RUNNING)
    platform.wait(second, S.RUNNING)
    platform.engine.finish(second, A.FAILED, exit_code=1)
    platform.wait(second, S.FAILED)
    platform.start_again()
    assert platform.service.get(after).state is S.QUEUED
    with pytest.raises(Conflict, match="other jobs wait"):
        platform.service.remove(second)
    platform.engine.finish(first)
    platform.wait(after, S.RUNNING)
    assert (after, 1) in platform.engine.started()


def test_administrators_name_jobs_of_others_by_the_beginning_of_their_ids(
    platform: Platform,
) -> None:
    first = platform.submit(user="ann")
    values = {"name": "x", "command": "true", "device": "sim:1", "after": [first[:8]]}
    spec = JobSpec.model_validate(values)
    with pytest.raises(JobNotFound):
        platform.service.submit(spec, user="bob")
    after = platform.service.submit(spec, user="root", ranked=True)
    assert after.spec["after"] == [first]


def test_a_failure_stops_the_whole_chain_and_says_why(platform: Platform) -> None:
    first = platform.submit(retries=1)
    chain = [first]
    for _ in range(3):
        chain.append(platform.submit(after=[chain[-1]]))
    rescue = platform.submit(after=[f"any:{chain[-1]}"])
    platform.wait(first, S.RUNNING)
    platform.engine.finish(first, A.FAILED, exit_code=1)
    # It is tried once more: nothing is decided yet.
    platform.wait(first, S.RUNNING, S.STARTING)
    assert platform.service.get(chain[1]).state is S.QUEUED
    platform.wait_for_start(first, 2)
    platform.engine.finish(first, A.FAILED, exit_code=1)
    for before, job in pairwise(chain):
        ended = platform.wait(job, S.STOPPED)
        assert (ended.cause, ended.values) == (Cause.AFTER_FAILED, {"job": before})
        assert ended.reason == f"not started: {before}, which it waits for, did not succeed"
        assert ended.waiting is None
    platform.wait(rescue, S.RUNNING)


def test_what_is_over_already_keeps_nobody_waiting(platform: Platform) -> None:
    first = platform.submit()
    platform.wait(first, S.RUNNING)
    platform.engine.finish(first)
    platform.wait(first, S.SUCCEEDED)
    platform.wait(platform.submit(after=[first]), S.RUNNING)
    platform.service.remove(first)
    with pytest.raises(JobNotFound):
        platform.submit(after=[first])


def test_an_array_runs_its_limit_at_once_in_order_across_restarts(platform: Platform) -> None:
    first = platform.submit(array="0-4%2", name="sweep")
    last = platform.submit(after=["sweep"])
    ids = [job.id for job in of_array(platform, first)]
    assert [platform.service.get(job).spec["array"] for job in ids[:2]] == ["0%2", "1%2"]
    platform.wait(ids[1], S.RUNNING)
    waiting = platform.service.get(ids[2]).waiting
    assert waiting is not None
    assert waiting.text == "2 jobs of its array may run at once"
    platform.start_again()
    for number, job in enumerate(ids):
        platform.wait(job, S.RUNNING)
        started = {job_id for job_id, _ in platform.engine.started()}
        assert started <= set(ids[: number + 2])
        platform.engine.finish(job)
        platform.wait(job, S.SUCCEEDED)
    platform.wait(last, S.RUNNING)


def test_an_array_is_stopped_whole_and_each_job_has_a_name(platform: Platform) -> None:
    first = platform.submit(array="3,7,9-11%1", name="sweep")
    array_id = platform.service.glance(first).array_id or ""
    find = platform.service.find
    assert find(array_id, user="ann").array_index == 3
    assert find(f"{array_id}-10", user="ann").array_index == 10
    with pytest.raises(JobNotFound):
        find(f"{array_id}-4", user="ann")
    platform.wait(first, S.RUNNING)
    assert platform.service.stop_array(array_id, by="ann") == 5
    for job in of_array(platform, first):
        platform.wait(job.id, S.STOPPED)
    assert [job_id for job_id, _ in platform.engine.started()] == [first]
    # One job of it again is one job, with its index.
    again = platform.service.rerun(first, user="ann")
    assert (again.array_index, len(of_array(platform, again.id))) == (3, 1)


def test_a_retry_is_the_same_array_and_limits_count_every_job(
    database_url: str, tmp_path: Path
) -> None:
    platform = Platform(database_url, tmp_path, limits=Limits(queue=4))
    try:
        values: dict[str, Any] = {"name": "x", "command": "true", "device": "sim:1"}
        spec = JobSpec.model_validate({**values, "array": "0-3"})
        made = [platform.service.submit(spec, user="ann", key="k").id for _ in range(2)]
        assert made[0] == made[1]
        assert len(of_array(platform, made[0])) == 4
        other = JobSpec.model_validate({**values, "array": "1-3"})
        with pytest.raises(KeyReused):
            platform.service.submit(other, user="ann", key="k")
        with pytest.raises(TooManyJobs):
            platform.submit(array="0-4", user="bob")
        assert not [job for job in platform.service.page().jobs if job.user == "bob"]
    finally:
        platform.service.close()


@pytest.mark.parametrize(
    "text", ["", "-", "5-3", "0-9:0", "a", "0-9%0", "0-9%", "1,,2", "0-99999", "٣", "1-9999999"]
)
def test_what_is_no_array(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        JobArray.parse(text)


@settings(max_examples=50)
@given(st.sets(st.integers(0, 5000), min_size=1, max_size=50), st.none() | st.integers(1, 99))
def test_an_array_reads_as_it_was_written(indices: set[int], limit: int | None) -> None:
    text = ",".join(map(str, indices)) + (f"%{limit}" if limit else "")
    array = JobArray.parse(text)
    assert array == JobArray(tuple(sorted(indices)), limit)
    for index in indices:
        assert JobArray.parse(array.element(index)) == JobArray((index,), limit)
    assert len(JobArray.parse("0-999").indices) == MOST_ELEMENTS
