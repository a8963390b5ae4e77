"""A real Slurm whose parts are killed, whose nodes go down, which makes room: what becomes of attempts."""

import os
import shutil
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.engine.conftest import make_attempt, wait_final
from tests.slurm import Cluster, running_cluster
from tests.waiting import wait_for

from jumar.engine.base import Attempt, Observation
from jumar.engine.slurm.asking import Slurm
from jumar.engine.slurm.engine import SlurmEngine
from jumar.errors import SubmitRefused
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState

WAIT = 'echo up; until [ -e "$JUMAR_JOB_DIR/go" ]; do sleep 0.05; done'
INTERVAL_S = 2.0
SHOW = "echo $JUMAR_NODE $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR $ASCEND_RT_VISIBLE_DEVICES"


@pytest.fixture
def engine(slurm_cluster: Cluster, tmp_path: Path) -> Generator[SlurmEngine]:
    slurm_cluster.empty()
    yield SlurmEngine(tmp_path, slurm=Slurm(slurm_cluster.environ), poll_s=0.2)
    slurm_cluster.empty()


def state(engine: SlurmEngine, attempt: Attempt) -> AttemptState:
    return engine.observe([attempt])[0].state


def started(engine: SlurmEngine, attempt: Attempt, nodes: int = 1) -> None:
    engine.start(attempt)
    runs(engine, attempt, nodes)


def runs(engine: SlurmEngine, attempt: Attempt, nodes: int = 1) -> None:
    """Wait until its ranks do; one that has ended instead says so at once, and why."""
    logs = attempt.directory / "logs"

    def is_up() -> bool:
        seen = engine.observe([attempt])[0]
        assert not seen.state.is_final, (seen, (logs / "slurm.log").read_text())
        return sum("up" in log.read_text() for log in logs.glob("node*/rank*.log")) >= nodes

    try:
        wait_for(is_up, "its ranks run")
    except AssertionError as error:
        error.add_note(f"it stands so: {engine.observe([attempt])[0]}")
        raise


@contextmanager
def held_up(cluster: Cluster, daemon: str, for_s: float) -> Generator[None]:
    """It does nothing for a while, as on a machine that has too much to do."""
    pid = cluster.pid(daemon)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
        time.sleep(for_s)
    finally:
        os.kill(pid, signal.SIGCONT)


def ended(engine: SlurmEngine, attempt: Attempt) -> Observation:
    return wait_final(engine, attempt)


def test_two_nodes_have_their_ranks_and_each_its_own_cards(
    engine: SlurmEngine, tmp_path: Path
) -> None:
    """Beside a job that has the first two cards of each node."""
    wide: dict[str, Any] = {"device": "npu:2", "nodes": 2, "type": "distributed"}
    on: dict[str, Any] = {"slurm": {"extra": ["--nodelist=node1,node2"], "cpus_per_device": 1}}
    first = make_attempt(tmp_path, WAIT, cards=(), **wide, **on)
    second = make_attempt(tmp_path, SHOW, cards=(), ranks="device", **wide, **on)
    started(engine, first, nodes=2)
    engine.start(second)
    assert ended(engine, second).state is AttemptState.SUCCEEDED
    (first.directory / "go").touch()
    assert ended(engine, first).state is AttemptState.SUCCEEDED
    lines = sorted(path.read_text().strip() for path in second.directory.glob("logs/node*/rank*"))
    assert lines == [f"{n} {2 * n + r} {r} 4 127.0.1.1 2,3" for n in range(2) for r in range(2)]


def test_a_controller_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """On a cluster of its own: ids that are used twice have nodes refuse later jobs."""
    with running_cluster() as cluster:
        engine = SlurmEngine(tmp_path, slurm=Slurm(cluster.environ), poll_s=0.2)
        attempt = make_attempt(tmp_path, WAIT, cards=())
        started(engine, attempt)
        wait_for(lambda: state(engine, attempt) is AttemptState.RUNNING, "it is seen to run")
        os.kill(cluster.pid("slurmctld"), signal.SIGKILL)
        try:
            assert state(engine, attempt) is AttemptState.RUNNING
        finally:
            cluster.start_again("slurmctld")
        # Back, it may know of the job or not: what counts is what the job says itself.
        assert state(engine, attempt) is AttemptState.RUNNING
        (attempt.directory / "go").touch()
        assert ended(engine, attempt).state is AttemptState.SUCCEEDED


def test_a_node_that_goes_down_is_told_and_the_next_attempt_runs(
    engine: SlurmEngine, slurm_cluster: Cluster, tmp_path: Path
) -> None:
    on: dict[str, Any] = {"slurm": {"extra": ["--nodelist=node4"]}}
    attempt = make_attempt(tmp_path, WAIT, cards=(), **on)
    started(engine, attempt)
    over = attempt.directory / "attempts/1/slurm.over.json"
    try:
        slurm_cluster.call("scontrol", "update", "nodename=node4", "state=down", "reason=test")
        # Its own word, and not what squeue tells of it meanwhile.
        wait_for(over.exists, "its batch step has ended")
        seen = ended(engine, attempt)
    finally:
        # Its slurmd may have brought it back by itself.
        slurm_cluster.call("scontrol", "update", "nodename=node4", "state=resume", check=False)
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.NODE_LOST)
    again = make_attempt(tmp_path, "true", job_id=attempt.job_id, number=2, cards=())
    engine.start(again)
    assert ended(engine, again).state is AttemptState.SUCCEEDED


def test_who_makes_room_is_preempted_and_who_is_cancelled_was_stopped(
    engine: SlurmEngine, slurm_cluster: Cluster, tmp_path: Path
) -> None:
    """One of two nodes, whose steps Slurm signals, and one of one node, which has none."""
    whole: dict[str, Any] = {"device": "npu:8", "grace": 2}
    wide: dict[str, Any] = {**whole, "nodes": 2, "type": "distributed"}
    two = make_attempt(tmp_path, WAIT, cards=(), **wide, slurm={"extra": ["--nodelist=node[1-2]"]})
    one = make_attempt(tmp_path, WAIT, cards=(), **whole, slurm={"extra": ["--nodelist=node3"]})
    started(engine, two, nodes=2)
    started(engine, one)
    all_three = {"partition": "urgent", "extra": ["--nodelist=node1,node2,node3"]}
    wide["nodes"] = 3
    urgent = make_attempt(tmp_path, WAIT, cards=(), **wide, slurm=all_three)
    engine.start(urgent)
    assert [ended(engine, each).state for each in (two, one)] == [AttemptState.PREEMPTED] * 2
    runs(engine, urgent, nodes=3)
    slurm_cluster.call("scancel", f"--name=jumar-{urgent.job_id}")
    assert ended(engine, urgent).state is AttemptState.STOPPED


def test_a_node_that_is_late_to_start_its_step_is_waited_for(
    engine: SlurmEngine, slurm_cluster: Cluster, tmp_path: Path
) -> None:
    """With a credential that was good for 5 s, its slurmd refused the step, and the job was lost."""
    wide: dict[str, Any] = {"nodes": 2, "type": "distributed"}
    on: dict[str, Any] = {"slurm": {"extra": ["--nodelist=node1,node2"]}}
    attempt = make_attempt(tmp_path, WAIT, cards=(), **wide, **on)
    with held_up(slurm_cluster, "slurmd-node2", for_s=10):
        engine.start(attempt)
    runs(engine, attempt, nodes=2)


def test_a_node_that_is_late_to_end_a_job_takes_the_next_one(
    engine: SlurmEngine, slurm_cluster: Cluster, tmp_path: Path
) -> None:
    """Slurm waited 10 s for its answer, and did not ask again for up to 140 s: the node stood as completing."""
    wide: dict[str, Any] = {"nodes": 2, "type": "distributed"}
    on: dict[str, Any] = {"slurm": {"extra": ["--nodelist=node3,node4"]}}
    attempt = make_attempt(tmp_path, WAIT, cards=(), **wide, **on)
    started(engine, attempt, nodes=2)
    with held_up(slurm_cluster, "slurmd-node4", for_s=20):
        (attempt.directory / "go").touch()
    assert ended(engine, attempt).state is AttemptState.SUCCEEDED
    wait_for(
        lambda: not slurm_cluster.call("squeue", "-h", "-w", "node4").strip(),
        "node4 is free",
        limit_s=40,
    )


def test_what_slurm_will_never_run_is_refused(engine: SlurmEngine, tmp_path: Path) -> None:
    refused: tuple[dict[str, Any], ...] = ({"device": "npu:9"}, {"slurm": {"partition": "nowhere"}})
    for fields in refused:
        attempt = make_attempt(tmp_path, "true", cards=(), **fields)
        with pytest.raises(SubmitRefused, match="Slurm refuses the job"):
            engine.plan(attempt.spec, user="ann")
        with pytest.raises(SubmitRefused):
            engine.start(attempt)


COUNTED = """\
#!/bin/sh
echo >> {calls}
exec {squeue} "$@"
"""


@pytest.mark.full
def test_three_hundred_jobs_are_watched_with_one_question_per_interval(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    calls, programs = tmp_path / "calls", tmp_path / "bin"
    programs.mkdir()
    squeue = programs / "squeue"
    squeue.write_text(COUNTED.format(calls=calls, squeue=shutil.which("squeue")))
    squeue.chmod(0o755)
    calls.touch()
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    engine = SlurmEngine(
        tmp_path, slurm=Slurm({**slurm_cluster.environ, "PATH": path}), poll_s=INTERVAL_S
    )
    few: dict[str, Any] = {"slurm": {"mem_per_device": "64M"}}
    attempts = [make_attempt(tmp_path, "true", cards=(), **few) for _ in range(300)]
    began = time.monotonic()
    for attempt in attempts:
        engine.start(attempt)
    wait_for(
        lambda: all(seen.state.is_final for seen in engine.observe(attempts)),
        "all have ended",
        limit_s=900,
    )
    took_s = time.monotonic() - began
    assert {seen.state for seen in engine.observe(attempts)} == {AttemptState.SUCCEEDED}
    assert len(calls.read_text()) <= took_s / INTERVAL_S + 1
