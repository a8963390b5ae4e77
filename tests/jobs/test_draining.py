"""A server that starts nothing for a while, and cards that others use."""

import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.jobs.test_segments import Bench
from tests.waiting import wait_for

from jumar.engine.memory import MemoryEngine
from jumar.errors import BadInput
from jumar.jobs.foreign import Foreign
from jumar.spec.causes import Cause
from jumar.spec.devices import Card, CardProcess, DeviceKind
from jumar.spec.states import AttemptState, JobState
from jumar.words.reasons import reason

A, S = AttemptState, JobState
NPUS = tuple(Card(DeviceKind.NPU, number) for number in range(4))
STRANGER = CardProcess(4_000_001, "python3", user="bob")


@pytest.fixture
def bench(tmp_path: Path) -> Generator[Bench]:
    made = Bench(tmp_path, MemoryEngine(NPUS))
    yield made
    made.service.close()


def waits(bench: Bench, job: str) -> tuple[str, str]:
    waiting = bench.service.get(job).waiting
    assert waiting is not None
    return waiting.cause, waiting.text


def test_a_drain_starts_nothing_and_is_kept_over_a_restart(bench: Bench, tmp_path: Path) -> None:
    before = bench.submit(device="npu:1")
    bench.wait(before, S.RUNNING)
    bench.service.draining.begin(by="ann", why="new driver")
    late = bench.submit(device="npu:1")
    time.sleep(0.2)
    assert waits(bench, late) == ("drain", "no jobs are started now (new driver)")
    assert bench.service.get(before).state is S.RUNNING
    assert bench.service.drain_report().running == 1
    bench.service.close()
    engine = bench.engine
    bench = Bench(tmp_path, engine)
    try:
        time.sleep(0.2)
        assert bench.service.get(late).state is S.QUEUED
        assert bench.service.get(before).state is S.RUNNING
        bench.service.draining.end()
        bench.wait(late, S.RUNNING)
        assert not (tmp_path / "drain.json").exists()
    finally:
        bench.service.close()


def test_a_drain_has_jobs_save_and_go_on_when_it_is_over(bench: Bench) -> None:
    jobs = [bench.submit(device="npu:1", preemptible=one) for one in (True, False)]
    for job in jobs:
        bench.wait(job, S.RUNNING)
    with pytest.raises(BadInput, match="future"):
        bench.service.draining.begin(by="ann", until=time.time() - 1)
    bench.service.draining.begin(by="ann", until=time.time() + 1.5, requeue=True)
    for job in jobs:
        again = bench.wait(job, S.RUNNING, attempt=2)
        assert [one.state for one in again.attempts] == [A.PREEMPTED, A.RUNNING]
        assert (again.attempts[0].cause, again.segment) == (Cause.MAINTENANCE, 1)


def test_who_leaves_for_maintenance_is_not_told_of_another_job(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MemoryEngine(NPUS, obedient=False))
    try:
        job = bench.submit(device="npu:1")
        bench.wait(job, S.RUNNING)
        bench.service.draining.begin(by="ann", why="new driver", requeue=True)
        wait_for(lambda: bench.engine.stops)
        said = "asked to save and leave for maintenance: new driver"
        assert bench.service.get(job).reason == said
        # However the drain goes on, this is why it left.
        bench.service.draining.begin(by="ann", why="still at it", requeue=True)
        bench.engine.finish(job, A.PREEMPTED, cause=Cause.PREEMPTED)
        back = bench.wait(job, S.QUEUED)
        assert back.attempts[0].reason == said
        assert (back.cause, back.values["why"]) == (Cause.MAINTENANCE, "new driver")
        assert (
            reason(back, "zh")
            == "第 1 次运行被抢占：因维护被要求保存并退出：new driver；有空闲资源后将继续运行"
        )
    finally:
        bench.service.close()


def test_a_damaged_note_of_a_drain_keeps_jobs_waiting(tmp_path: Path) -> None:
    (tmp_path / "drain.json").write_text('{"since": ')
    bench = Bench(tmp_path, MemoryEngine(NPUS))
    try:
        job = bench.submit(device="npu:1")
        time.sleep(0.1)
        assert waits(bench, job) == ("drain", "no jobs are started now (drain.json is damaged)")
        bench.service.draining.end()
        bench.wait(job, S.RUNNING)
    finally:
        bench.service.close()


@pytest.fixture
def shared(tmp_path: Path) -> Generator[Bench]:
    engine = MemoryEngine(NPUS)
    engine.processes = (replace(NPUS[0], processes=(STRANGER,)),)
    made = Bench(tmp_path, engine)
    yield made
    made.service.close()


def test_a_card_that_somebody_uses_is_not_given_out(shared: Bench) -> None:
    bench, engine, foreign = shared, shared.engine, shared.service.foreign
    first = bench.submit(device="npu:3")
    cards = bench.wait(first, S.RUNNING).attempts[0].cards
    assert cards == (NPUS[1].ref, NPUS[2].ref, NPUS[3].ref)
    used = [use for use in bench.service.cards() if use.foreign]
    assert [(use.id, use.foreign[0].user, use.job_id) for use in used] == [(0, "bob", None)]
    second = bench.submit(device="npu:2")
    bench.engine.finish(first)
    third = bench.submit(device="npu:3")
    cause, text = waits(bench, third)
    assert cause == "cards"
    assert "1 of the machine's cards is used by processes that belong to no job (bob)" in text
    bench.wait(second, S.RUNNING)
    # Gone: nobody but the look has to say so. On a card of a job, others change nothing.
    engine.processes = (replace(NPUS[1], processes=(STRANGER,)),)
    fresh(foreign)
    bench.engine.finish(second)
    bench.wait(third, S.RUNNING)


def fresh(foreign: Foreign) -> None:
    """Look until it is not the last look that is told again."""
    until = time.monotonic() + 60
    while {card.id for _, card in foreign.look()} != {1}:
        assert time.monotonic() < until
        time.sleep(0.1)
