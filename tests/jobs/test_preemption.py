"""Preemptible jobs make room for others, and go on afterwards."""

import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.jobs.test_segments import CARDS, DONE, Bench
from tests.waiting import wait_for

from jumar.engine.memory import MemoryEngine
from jumar.jobs.scheduling import records
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState, JobState

A, S = AttemptState, JobState


@pytest.fixture(params=[True, False], ids=["obedient", "slow"])
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Generator[Bench]:
    made = Bench(tmp_path, MemoryEngine(CARDS, obedient=request.param))
    made.is_slow = not request.param
    yield made
    made.service.close()


def leave(bench: Bench, *jobs: str) -> None:
    """Those who are asked take their time."""
    wait_for(lambda: {job for job, *_ in bench.engine.stops} >= set(jobs))
    for job in jobs if bench.is_slow else ():
        bench.engine.finish(job, A.PREEMPTED, cause=Cause.PREEMPTED)


def test_the_fewest_make_room_and_come_back_after_whom_they_made_room_for(bench: Bench) -> None:
    small = [bench.submit(preemptible=True) for _ in range(2)]
    big = bench.submit(preemptible=True, device="sim:2", segments=3)
    for job in (*small, big):
        bench.wait(job, S.RUNNING)
    urgent = bench.submit(device="sim:2")
    leave(bench, big)
    bench.wait(urgent, S.RUNNING)
    victim = bench.service.get(big)
    assert (victim.state, victim.cause, victim.segment) == (S.QUEUED, Cause.PREEMPTED, 1)
    assert victim.attempts[0].state is A.PREEMPTED
    # Nobody else was asked, and a preemptible job has nobody leave for it.
    bench.service.stop(bench.submit(device="sim:4", preemptible=True))
    assert {(job, why) for job, _, why in bench.engine.stops} == {(big, A.PREEMPTED)}
    bench.engine.finish(urgent)
    again = bench.wait(big, S.RUNNING, attempt=2)
    assert [attempt.segment for attempt in again.attempts] == [1, 1]
    # It is spared until it has saved something.
    other = bench.submit(device="sim:2")
    leave(bench, *small)
    bench.wait(other, S.RUNNING)
    assert bench.service.get(big).state is S.RUNNING
    ckpt = Path(bench.service.get(big).directory, "ckpt")
    ckpt.mkdir(parents=True)
    (ckpt / "one.pt").write_bytes(b"saved")
    os.utime(ckpt / "one.pt", (time.time() + 60, time.time() + 60))
    last = bench.submit(device="sim:2")
    leave(bench, big)
    bench.wait(last, S.RUNNING)


def test_what_never_saves_makes_room_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "SPARED_S", 3.0)
    bench = Bench(tmp_path, MemoryEngine(CARDS))
    try:
        victim = bench.submit(preemptible=True, device="sim:4")
        bench.wait(victim, S.RUNNING)
        for number in (1, 2):
            urgent = bench.submit(device="sim:4")
            bench.wait(urgent, S.RUNNING)
            bench.engine.finish(urgent)
            again = bench.wait(victim, S.RUNNING, attempt=number + 1)
        kept = again.attempts[1]
        assert kept.finished_at is not None
        assert 3.0 <= kept.finished_at - kept.created_at < 10.0
    finally:
        bench.service.close()


def test_who_makes_room_leaves_also_after_a_restart_and_waits_for_nobody_who_left(
    tmp_path: Path,
) -> None:
    engine = MemoryEngine(CARDS, obedient=False)
    bench = Bench(tmp_path, engine)
    victim = bench.submit(preemptible=True, device="sim:4")
    bench.wait(victim, S.RUNNING)
    head = bench.submit(device="sim:4")
    bench.is_slow = False
    leave(bench, victim)
    bench.service.close()
    engine.stops.clear()
    bench = Bench(tmp_path, engine)
    bench.is_slow = True
    leave(bench, victim)
    bench.wait(head, S.RUNNING)
    bench.ends(head, DONE)
    bench.wait(victim, S.RUNNING, attempt=2)
    bench.service.close()


def test_who_is_killed_while_making_room_goes_back_in_line_and_has_used_no_retry(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, MemoryEngine(CARDS, obedient=False))
    try:
        victim = bench.submit(preemptible=True, device="sim:4", fault_retries=0)
        bench.wait(victim, S.RUNNING)
        urgent = bench.submit(device="sim:4")
        wait_for(lambda: bench.engine.stops)
        bench.engine.finish(victim, A.LOST, cause=Cause.LAUNCHER_KILLED)
        bench.wait(urgent, S.RUNNING)
        bench.engine.finish(urgent)
        again = bench.wait(victim, S.RUNNING, attempt=2)
        assert [attempt.state for attempt in again.attempts] == [A.LOST, A.RUNNING]
        # Nobody has asked this time.
        bench.engine.finish(victim, A.LOST, cause=Cause.LAUNCHER_KILLED)
        bench.wait(victim, S.LOST)
    finally:
        bench.service.close()
